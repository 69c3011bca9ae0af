//! Realistic JSON values, made from a seed and an index alone.
//!
//! A value is never kept: whoever wants to compare one makes it again. Four kinds alternate at
//! random, as they do in a store that several services share: user profiles, orders with nested
//! items, batches of click events, and log records with a stack trace. Each is 300 to 1500
//! bytes, and records follow one another in time. What repeats in such records (keys, settings
//! left at their default, URLs, message templates, stack frames, the date) and what does not
//! (identifiers, tokens, amounts, the order of things) is mixed as a shop's services write it.

use crate::vocabulary::*;

/// Shortest value, in bytes.
pub const SHORTEST: usize = 300;
/// Longest value, in bytes.
pub const LONGEST: usize = 1500;

/// Writes the key of record `index` into `out`.
pub fn key(index: u64, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(b"record:");
    decimal(index, out);
}

/// Writes the value of record `index` of the sequence `seed` into `out`.
pub fn value(seed: u64, index: u64, out: &mut Vec<u8>) {
    out.clear();
    let mut writer = Writer {
        random: Random::new(seed, index),
        second: index / RECORDS_A_SECOND,
        out,
    };
    match writer.random.below(10) {
        0..4 => writer.profile(index),
        4..7 => writer.order(index),
        7..9 => writer.events(index),
        _ => writer.log(index),
    }
    debug_assert!((SHORTEST..=LONGEST).contains(&out.len()), "{}", out.len());
}

/// How many records the services write in a second: what lies together was written together.
const RECORDS_A_SECOND: u64 = 20;

/// SplitMix64: small, fast, and every (seed, index) starts its own sequence.
struct Random(u64);

impl Random {
    fn new(seed: u64, index: u64) -> Random {
        let mut random = Random(seed ^ index.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }
}

fn decimal(number: u64, out: &mut Vec<u8>) {
    padded(number, 1, out);
}

fn padded(mut number: u64, least: usize, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    while number > 0 || digits.len() - at < least {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    out.extend_from_slice(&digits[at..]);
}

struct Writer<'a> {
    random: Random,
    /// When the record was written, in seconds since the first one.
    second: u64,
    out: &'a mut Vec<u8>,
}

impl Writer<'_> {
    fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn pick(&mut self, from: &[&str]) {
        let text = self.random.pick(from);
        self.text(text);
    }

    fn number(&mut self, number: u64) {
        decimal(number, self.out);
    }

    fn up_to(&mut self, limit: u64) {
        let number = self.random.below(limit);
        self.number(number);
    }

    fn price(&mut self) {
        let cents = 99 + self.random.below(1 << (7 + self.random.0 % 10));
        self.number(cents / 100);
        self.text(".");
        padded(cents % 100, 2, self.out);
    }

    /// `digits` hexadecimal digits, at most 16.
    fn hexadecimal(&mut self, digits: u32) {
        let bits = self.random.next();
        for digit in 0..digits {
            let nibble = (bits >> (4 * digit)) & 15;
            self.out.push(b"0123456789abcdef"[nibble as usize]);
        }
    }

    fn uuid(&mut self) {
        for (at, digits) in [8, 4, 4, 4, 12].into_iter().enumerate() {
            if at > 0 {
                self.text("-");
            }
            self.hexadecimal(digits);
        }
    }

    /// The time `before` seconds before the record was written. The calendar starts in 2025 and
    /// its months have 28 days.
    fn timestamp(&mut self, before: u64) {
        let second = (400 * 86_400 + self.second).saturating_sub(before);
        let milliseconds = self.random.below(1000);
        let day = second / 86_400;
        for (number, least, after) in [
            (2024 + day / 336, 4, "-"),
            (1 + day / 28 % 12, 2, "-"),
            (1 + day % 28, 2, "T"),
            (second / 3600 % 24, 2, ":"),
            (second / 60 % 60, 2, ":"),
            (second % 60, 2, "."),
            (milliseconds, 3, "Z"),
        ] {
            padded(number, least, self.out);
            self.text(after);
        }
    }

    fn address(&mut self) {
        for part in 0..4 {
            if part > 0 {
                self.text(".");
            }
            self.up_to(255);
        }
    }

    fn person(&mut self) {
        let (first, last) = (self.random.pick(FIRST_NAMES), self.random.pick(LAST_NAMES));
        self.text("\"name\":{\"first\":\"");
        self.text(first);
        self.text("\",\"last\":\"");
        self.text(last);
        self.text("\"},\"email\":\"");
        self.out
            .extend(first.bytes().map(|b| b.to_ascii_lowercase()));
        self.text(".");
        self.out
            .extend(last.bytes().map(|b| b.to_ascii_lowercase()));
        self.up_to(1000);
        self.text("@");
        self.pick(DOMAINS);
        self.text("\"");
    }

    fn place(&mut self) {
        self.text("{\"street\":\"");
        self.up_to(400);
        self.text(" ");
        self.pick(STREETS);
        self.text("\",\"city\":\"");
        self.pick(CITIES);
        self.text("\",\"zip\":\"");
        let zip = self.random.below(100_000);
        padded(zip, 5, self.out);
        self.text("\"}");
    }

    fn profile(&mut self, index: u64) {
        self.text("{\"type\":\"user\",\"id\":");
        self.number(index);
        self.text(",\"uuid\":\"");
        self.uuid();
        self.text("\",");
        self.person();
        self.text(",\"avatar_url\":\"https://cdn.shop.example.com/avatars/256x256/");
        self.number(index);
        self.text(".png\",\"address\":");
        self.place();
        self.text(",\"created_at\":\"");
        self.timestamp(1);
        self.text("\",\"updated_at\":\"");
        self.timestamp(0);
        self.text("\",\"login_count\":");
        self.up_to(5000);
        self.text(",\"email_verified\":");
        self.pick(&["true", "true", "true", "false"]);
        self.text(",\"phone\":null,\"roles\":[\"customer\"],\"preferences\":{\"language\":\"");
        self.pick(&["en", "de", "fr", "es", "ja", "pt"]);
        self.text("\",\"theme\":\"");
        self.pick(&["light", "dark", "system"]);
        self.text("\",\"notifications\":{\"email\":true,\"sms\":false,\"push\":");
        self.pick(&["true", "false"]);
        self.text("},\"newsletter\":");
        self.pick(&["true", "false"]);
        self.text("},\"interests\":[");
        for interest in 0..1 + self.random.below(6) {
            self.text(if interest > 0 { ",\"" } else { "\"" });
            self.pick(CATEGORIES);
            self.text("\"");
        }
        self.text("],\"loyalty\":{\"tier\":\"");
        self.pick(&["bronze", "bronze", "silver", "gold"]);
        self.text("\",\"points\":");
        self.up_to(20_000);
        self.text("}}");
    }

    fn order(&mut self, index: u64) {
        self.text("{\"type\":\"order\",\"order_id\":\"ORD-");
        padded(index, 9, self.out);
        self.text("\",\"customer\":{\"id\":");
        self.up_to(2_000_000);
        self.text(",");
        self.person();
        self.text("},\"status\":\"");
        self.pick(&["pending", "paid", "shipped", "delivered", "returned"]);
        self.text("\",\"placed_at\":\"");
        self.timestamp(0);
        self.text("\",\"items\":[");
        for item in 0..1 + self.random.below(6) {
            let number = self.random.below(2000);
            self.text(if item > 0 {
                ",{\"sku\":\"SKU-"
            } else {
                "{\"sku\":\"SKU-"
            });
            padded(number, 6, self.out);
            self.text("\",\"title\":\"");
            self.text(ADJECTIVES[number as usize % ADJECTIVES.len()]);
            self.text(" ");
            self.text(PRODUCTS[number as usize % PRODUCTS.len()]);
            self.text("\",\"category\":\"");
            self.text(CATEGORIES[number as usize % CATEGORIES.len()]);
            self.text("\",\"quantity\":");
            let quantity = 1 + self.random.below(3);
            self.number(quantity);
            self.text(",\"unit_price\":");
            self.price();
            self.text(",\"tax_rate\":0.19,\"discount\":null}");
        }
        self.text("],\"shipping_address\":");
        self.place();
        self.text(",\"total\":");
        self.price();
        self.text(",\"currency\":\"EUR\",\"payment\":{\"method\":\"");
        self.pick(&["card", "paypal", "invoice", "transfer"]);
        self.text("\",\"token\":\"");
        self.hexadecimal(16);
        self.text("\",\"captured\":true}}");
    }

    fn events(&mut self, index: u64) {
        self.text("{\"type\":\"events\",\"batch\":");
        self.number(index);
        self.text(",\"session_id\":\"");
        self.uuid();
        self.text("\",\"client\":{\"ip\":\"");
        self.address();
        self.text("\",\"user_agent\":\"");
        self.pick(AGENTS);
        self.text("\"},\"events\":[");
        let count = 2 + self.random.below(7);
        for event in 0..count {
            self.text(if event > 0 {
                ",{\"at\":\""
            } else {
                "{\"at\":\""
            });
            self.timestamp((count - event) * 7);
            self.text("\",\"name\":\"");
            self.pick(&[
                "page_view",
                "click",
                "scroll",
                "add_to_cart",
                "search",
                "focus",
            ]);
            self.text("\",\"url\":\"https://shop.example.com/products/");
            self.pick(CATEGORIES);
            self.text("/");
            self.up_to(2000);
            self.text("\",\"position\":{\"x\":");
            self.up_to(1920);
            self.text(",\"y\":");
            self.up_to(4000);
            self.text("}}");
        }
        self.text("],\"experiments\":{\"new_checkout\":");
        self.pick(&["true", "false"]);
        self.text(",\"recommendations\":");
        self.pick(&["true", "false"]);
        self.text("}}");
    }

    fn log(&mut self, index: u64) {
        self.text("{\"type\":\"log\",\"sequence\":");
        self.number(index);
        self.text(",\"timestamp\":\"");
        self.timestamp(0);
        self.text("\",\"level\":\"");
        self.pick(&["DEBUG", "INFO", "INFO", "INFO", "WARN", "ERROR"]);
        self.text("\",\"service\":\"");
        self.pick(SERVICES);
        self.text("\",\"host\":\"node-");
        self.up_to(64);
        self.text(".eu-central.internal.example.com\",\"trace_id\":\"");
        self.hexadecimal(16);
        self.hexadecimal(16);
        self.text("\",\"message\":\"");
        self.pick(MESSAGES);
        self.text("\",\"duration_ms\":");
        self.price();
        self.text(",\"attempt\":1,\"customer_id\":");
        self.up_to(2_000_000);
        self.text(",\"stack\":[");
        for frame in 0..2 + self.random.below(7) {
            self.text(if frame > 0 { ",\"" } else { "\"" });
            self.pick(FRAMES);
            self.text(":");
            self.up_to(900);
            self.text("\"");
        }
        self.text("]}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(seed: u64, index: u64) -> Vec<u8> {
        let mut out = Vec::new();
        value(seed, index, &mut out);
        out
    }

    #[test]
    fn the_same_seed_and_index_give_the_same_bytes() {
        for index in [0, 1, 77, 1 << 40] {
            assert_eq!(made(3, index), made(3, index));
        }
        assert_ne!(made(3, 5), made(4, 5));
        assert_ne!(made(3, 5), made(3, 6));
    }

    #[test]
    fn the_sequence_is_pinned() {
        // FNV-1a over the first thousand values: a change of the generator must be deliberate.
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        for index in 0..1000 {
            for byte in made(1, index) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
        assert_eq!(hash, PINNED, "{hash:#x}");
    }
    const PINNED: u64 = 0x17bc_678e_9c81_5f35;

    #[test]
    fn every_value_is_json_of_a_realistic_size() {
        let mut kinds = std::collections::BTreeMap::<String, (usize, usize, usize)>::new();
        for index in 0..20_000 {
            let bytes = made(9, index);
            assert!(
                (SHORTEST..=LONGEST).contains(&bytes.len()),
                "{}",
                bytes.len()
            );
            let parsed: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
            let kind = kinds
                .entry(parsed["type"].as_str().unwrap().to_owned())
                .or_insert((0, usize::MAX, 0));
            *kind = (kind.0 + 1, kind.1.min(bytes.len()), kind.2.max(bytes.len()));
        }
        assert_eq!(kinds.len(), 4, "{kinds:?}");
        assert!(kinds.values().all(|k| k.0 > 1000), "{kinds:?}");
    }

    #[test]
    fn keys_are_decimal() {
        let mut out = b"rubbish".to_vec();
        key(1207, &mut out);
        assert_eq!(out, b"record:1207");
        key(0, &mut out);
        assert_eq!(out, b"record:0");
    }
}
