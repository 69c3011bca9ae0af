// Something for a C++ compiler to think about: the standard library, and templates on top of it.
#include <bits/stdc++.h>

template <int N> struct Record {
    std::map<std::string, std::vector<std::optional<double>>> columns;
    std::variant<int, std::string, std::unique_ptr<Record<N - 1>>> next;
    std::tuple<std::array<int, N + 1>, std::set<std::string>, std::function<double(double)>> rest;
    auto total() const {
        return std::accumulate(columns.begin(), columns.end(), 0.0, [](double sum, const auto &column) {
            for (const auto &value : column.second) sum += value.value_or(N);
            return sum;
        });
    }
    template <class F> auto visit(F f) {
        return std::visit([&](auto &value) -> double {
            if constexpr (std::is_same_v<std::decay_t<decltype(value)>, int>) return f(value);
            else if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>) return f(value.size());
            else return value ? value->total() + value->visit(f) : 0.0;
        }, next);
    }
};
template <> struct Record<0> {
    double total() const { return 0; }
    template <class F> double visit(F f) { return f(0); }
};
template <std::size_t... I> double all(std::index_sequence<I...>) {
    double sum = 0;
    ((sum += [] {
        Record<int(I) + 1> record;
        record.columns["a"].push_back(I);
        std::unordered_map<std::string, Record<int(I) + 1> *> named{{"x", &record}};
        std::regex expression("(a|b)+" + std::to_string(I));
        std::sort(record.columns["a"].begin(), record.columns["a"].end());
        return record.visit([&](auto value) { return double(value) + named.size() + std::regex_match("ab", expression); });
    }()), ...);
    return sum;
}
#ifndef RECORDS
#define RECORDS 14
#endif
int main() { std::cout << all(std::make_index_sequence<RECORDS>()) << "\n"; }
