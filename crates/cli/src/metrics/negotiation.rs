//! Which format a client wants, by its `Accept` header (RFC 9110, 12.5.1).
//!
//! As Prometheus' own exporters do it: of the media types that can be had, the one with the highest quality; the first of
//! several. Without any of them the older text format, which everybody reads, and never a refusal.

use super::exposition::Format;

/// The format for an `Accept` header; an absent one is empty.
pub fn format(accept: &str) -> Format {
    let mut best: Option<(Format, u32)> = None;
    for range in accept.split(',') {
        let Some((format, quality)) = wanted(range) else {
            continue;
        };
        if quality > 0 && best.is_none_or(|(_, other)| quality > other) {
            best = Some((format, quality));
        }
    }
    best.map_or(Format::Prometheus, |(format, _)| format)
}

/// The format that a media range means, and how much it is wanted, in thousandths.
fn wanted(range: &str) -> Option<(Format, u32)> {
    let mut parts = range.split(';').map(str::trim);
    let kind = parts.next()?.to_ascii_lowercase();
    let (mut version, mut quality) = (None, 1000);
    for parameter in parts {
        let (name, value) = parameter.split_once('=')?;
        let value = value.trim().trim_matches('"');
        match name.trim().to_ascii_lowercase().as_str() {
            "q" => quality = thousandths(value)?,
            "version" => version = Some(value),
            _ => {}
        }
    }
    let format = match (kind.as_str(), version) {
        ("application/openmetrics-text", None | Some("1.0.0" | "0.0.1")) => Format::Openmetrics,
        ("text/plain", None | Some("0.0.4")) => Format::Prometheus,
        _ => return None,
    };
    Some((format, quality))
}

fn thousandths(value: &str) -> Option<u32> {
    let number: f64 = value.parse().ok()?;
    (0.0..=1.0)
        .contains(&number)
        .then_some((number * 1000.0) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_most_is_given_and_something_always_is() {
        const PROMETHEUS_2: &str = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        const PROMETHEUS_3: &str = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        for (accept, wanted) in [
            (PROMETHEUS_2, Format::Openmetrics),
            (PROMETHEUS_3, Format::Openmetrics),
            ("application/openmetrics-text", Format::Openmetrics),
            (
                "APPLICATION/OpenMetrics-Text; Version=\"1.0.0\"",
                Format::Openmetrics,
            ),
            (
                "text/plain;version=0.0.4;q=0.9,application/openmetrics-text;q=0.5",
                Format::Prometheus,
            ),
            (
                "application/openmetrics-text;q=0,text/plain;q=0.1",
                Format::Prometheus,
            ),
            (
                "application/openmetrics-text;version=2.0.0",
                Format::Prometheus,
            ),
            (
                "text/html,application/xhtml+xml,*/*;q=0.8",
                Format::Prometheus,
            ),
            ("*/*", Format::Prometheus),
            ("", Format::Prometheus),
            (";;=,q=;", Format::Prometheus),
            ("application/openmetrics-text;q=NaN", Format::Prometheus),
        ] {
            assert_eq!(format(accept), wanted, "{accept}");
        }
    }
}
