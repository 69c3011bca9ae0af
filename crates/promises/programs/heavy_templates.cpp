// A translation unit that makes a compiler allocate: most of the standard library, and containers
// instantiated over a family of types that the preprocessor multiplies.
#include <algorithm>
#include <any>
#include <chrono>
#include <deque>
#include <filesystem>
#include <functional>
#include <future>
#include <iomanip>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

template <int N> struct Key {
    int value[1 + N % 4];
    std::string name;
    bool operator<(const Key &other) const { return std::tie(value[0], name) < std::tie(other.value[0], other.name); }
    bool operator==(const Key &other) const { return value[0] == other.value[0] && name == other.name; }
};

template <int N> struct Hash {
    std::size_t operator()(const Key<N> &key) const { return std::hash<std::string>()(key.name) + N; }
};

template <int N> int exercise(int seed) {
    std::map<Key<N>, std::vector<std::optional<std::variant<int, std::string, Key<N>>>>> ordered;
    std::unordered_map<Key<N>, std::deque<std::shared_ptr<Key<N>>>, Hash<N>> hashed;
    std::mt19937 random(seed + N);
    for (int i = 0; i < seed; i++) {
        Key<N> key{{static_cast<int>(random() % 100)}, std::to_string(random())};
        ordered[key].emplace_back(key);
        hashed[key].push_back(std::make_shared<Key<N>>(key));
    }
    std::vector<std::pair<Key<N>, std::function<int(int)>>> actions;
    for (auto &entry : ordered) actions.emplace_back(entry.first, [&entry](int x) { return x + (int)entry.second.size(); });
    std::stable_sort(actions.begin(), actions.end(), [](auto &a, auto &b) { return b.first < a.first; });
    std::set<std::tuple<int, std::string, double>> tuples;
    for (auto &action : actions) tuples.emplace(action.second(N), action.first.name, N * 0.5);
    std::ostringstream text;
    for (auto &[number, name, ratio] : tuples) text << std::setw(N % 9) << number << name << ratio;
    return std::accumulate(actions.begin(), actions.end(), (int)(hashed.size() + text.str().size()),
                           [](int sum, auto &action) { return sum + action.second(sum); });
}

#define ONE(n) exercise<n>(argc) +

int main(int argc, char **argv) {
    std::regex pattern("([a-z]+)-(\\d+)");
    std::smatch match;
    std::string text = argv[0];
    return ONE(1) ONE(2) std::regex_match(text, match, pattern);
}
