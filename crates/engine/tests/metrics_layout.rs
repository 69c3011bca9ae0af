//! Promise: the C header and the Rust side mean the same bytes, and those of
//! `zx_info_kmem_stats_compression` are the RFC's.

use crate::metrics_common::*;
use coldpress_engine::metrics::accounting::flags;
use coldpress_engine::metrics::kmem::KmemStatsCompression;
use coldpress_engine::metrics::layouts;
use coldpress_engine::metrics::query::topic;
use coldpress_engine::metrics::record::{Layout, Record};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// What the RFC says, field by field, with lengths in bytes.
const RFC: [(&str, usize); 14] = [
    ("uncompressed_content_bytes", 8),
    ("compressed_storage_bytes", 8),
    ("compressed_fragmentation_bytes", 8),
    ("compression_time", 8),
    ("decompression_time", 8),
    ("total_page_compression_attempts", 8),
    ("failed_page_compression_attempts", 8),
    ("total_page_decompressions", 8),
    ("compressed_page_evictions", 8),
    ("eager_page_compressions", 8),
    ("memory_pressure_page_compressions", 8),
    ("critical_memory_page_compressions", 8),
    ("pages_decompressed_unit_ns", 8),
    ("pages_decompressed_within_log_time", 8 * 8),
];

#[test]
fn kmem_stats_compression_has_the_layout_of_the_rfc() {
    let layout = KmemStatsCompression::LAYOUT;
    assert_eq!(layout.c_name, "zx_info_kmem_stats_compression");
    let mut offset = 0;
    for (field, (name, bytes)) in layout.fields.iter().zip(RFC) {
        assert_eq!(
            (field.name, field.offset, field.bytes),
            (name, offset, bytes)
        );
        offset += bytes;
    }
    assert_eq!(layout.fields.len(), RFC.len());
    assert_eq!((layout.bytes, offset), (168, 168));
}

/// What Rust says of a structure, as the C program prints it.
fn lines_of(layout: &Layout, c_name: &str) -> Vec<String> {
    let mut lines = vec![format!("{c_name} {}", layout.bytes)];
    for field in layout.fields {
        let (name, offset, bytes) = (field.name, field.offset, field.bytes);
        lines.push(format!("{c_name}.{name} {offset} {bytes}"));
    }
    lines
}

/// A C program that prints what the header says of these structures and constants.
fn program(header: &str, layouts: &[(&Layout, String)], constants: &[String]) -> String {
    let mut c = format!("#include \"{header}\"\n#include <stddef.h>\n#include <stdio.h>\n");
    c.push_str("int main(void) {\n");
    for (layout, name) in layouts {
        let _ = writeln!(c, "printf(\"{name} %zu\\n\", sizeof(struct {name}));");
        for field in layout.fields {
            let field = field.name;
            let _ = writeln!(
                c,
                "printf(\"{name}.{field} %zu %zu\\n\", offsetof(struct {name}, {field}), \
                 sizeof(((struct {name}*)0)->{field}));"
            );
        }
    }
    for name in constants {
        let _ = writeln!(c, "printf(\"{name} %u\\n\", {name});");
    }
    c.push_str("return 0;\n}\n");
    c
}

fn printed_by(name: &str, source: &str, include: &Path) -> Vec<String> {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.c"));
    std::fs::write(&file, source).unwrap();
    let include = format!("-I{}", include.display());
    let program = compile(name, &file, &[&include]);
    let output = Command::new(program).output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn flag_constants() -> Vec<(String, u32)> {
    [
        ("RESIZABLE", flags::RESIZABLE),
        ("SNAPSHOT", flags::SNAPSHOT),
        ("PAGER_BACKED", flags::PAGER_BACKED),
        ("LATENCY_SENSITIVE", flags::LATENCY_SENSITIVE),
        ("PINNED", flags::PINNED),
    ]
    .map(|(name, value)| (format!("COLDPRESS_VMO_{name}"), value))
    .to_vec()
}

#[test]
#[cfg_attr(miri, ignore = "starts a compiler")]
fn the_header_has_the_layouts_of_rust() {
    if !cc_or_skip() {
        return;
    }
    let layouts: Vec<_> = layouts::ALL
        .iter()
        .map(|layout| (layout, layout.c_name.to_owned()))
        .collect();
    let topics = topic::ALL.map(|(name, value)| (format!("COLDPRESS_INFO_{name}"), value));
    // The plain names are the newest.
    let plain = topic::ALL.into_iter().filter_map(|(name, value)| {
        let name = name.strip_suffix("_V2")?;
        Some((format!("COLDPRESS_INFO_{name}"), value))
    });
    let constants: Vec<_> = topics
        .into_iter()
        .chain(plain)
        .chain(flag_constants())
        .collect();
    let names: Vec<_> = constants.iter().map(|(name, _)| name.clone()).collect();
    let source = program("coldpress_info.h", &layouts, &names);
    let printed = printed_by("layout_new", &source, &package("include"));
    let mut expected: Vec<String> = Vec::new();
    for (layout, name) in &layouts {
        expected.extend(lines_of(layout, name));
    }
    expected.extend(
        constants
            .iter()
            .map(|(name, value)| format!("{name} {value}")),
    );
    assert_eq!(printed, expected);
}

/// The old header is what programs out there were compiled with: the first layouts, by plain names.
#[test]
#[cfg_attr(miri, ignore = "starts a compiler")]
fn the_old_header_has_the_first_layouts() {
    if !cc_or_skip() {
        return;
    }
    let layouts: Vec<_> = layouts::ALL
        .iter()
        .filter_map(|layout| Some((layout, layout.c_name.strip_suffix("_v1")?.to_owned())))
        .collect();
    assert_eq!(layouts.len(), 5);
    let constants: Vec<_> = topic::ALL
        .into_iter()
        .filter_map(|(name, value)| {
            let name = name.strip_suffix("_V1")?;
            Some((format!("COLDPRESS_INFO_{name}"), value))
        })
        .chain(flag_constants())
        .collect();
    let names: Vec<_> = constants.iter().map(|(name, _)| name.clone()).collect();
    let source = program("v1.h", &layouts, &names);
    let printed = printed_by("layout_old", &source, &package("tests/headers"));
    let mut expected: Vec<String> = Vec::new();
    for (layout, name) in &layouts {
        expected.extend(lines_of(layout, name));
    }
    expected.extend(
        constants
            .iter()
            .map(|(name, value)| format!("{name} {value}")),
    );
    assert_eq!(printed, expected);
}

/// Written and read again, whatever is in it.
#[test]
fn records_survive_their_bytes() {
    let mut stats = KmemStatsCompression {
        uncompressed_content_bytes: u64::MAX,
        compression_time: -5,
        pages_decompressed_unit_ns: 1,
        ..KmemStatsCompression::default()
    };
    stats.pages_decompressed_within_log_time[7] = 0x0123_4567_89AB_CDEF;
    let mut bytes = [0xEE; 200];
    stats.write_to(&mut bytes);
    assert_eq!(KmemStatsCompression::read_from(&bytes), Some(stats));
    assert_eq!(KmemStatsCompression::read_from(&bytes[..168]), Some(stats));
    assert_eq!(KmemStatsCompression::read_from(&bytes[..167]), None);
    assert!(bytes[168..].iter().all(|&byte| byte == 0xEE));
    assert_eq!(bytes[160..168], 0x0123_4567_89AB_CDEFu64.to_ne_bytes());
}
