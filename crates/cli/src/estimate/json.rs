//! The estimate for programs. Sizes are bytes, times seconds, shares of 1; docs/cli.md documents every key.

use crate::estimate::assemble::Estimate;
use crate::estimate::model::Expected;
use crate::estimate::seen::Touched;
use crate::estimate::text::{age_rows, budgets};
use serde_json::{Map, Value, json};

/// The version of the form: it changes when a key changes its meaning or goes.
pub const SCHEMA_VERSION: u64 = 1;

/// One process.
pub fn process(estimate: &Estimate, budget: Option<u64>) -> Value {
    let model = &estimate.model;
    let survey = &estimate.seen.survey;
    let knows = estimate.knows_ages();
    let unmanaged: Map<String, Value> = survey
        .unmanaged
        .iter()
        .map(|(reason, bytes)| (reason.key().to_owned(), json!(bytes)))
        .collect();
    let (means, why) = match &estimate.seen.touched {
        Touched::Unknown(why) => ("none", Some(why)),
        Touched::ByMapping { .. } => ("clear-refs", None),
        Touched::ByPage(_) => ("damon", None),
    };
    let under = budgets(estimate, budget).into_iter().map(|bytes| {
        json!({
            "budget_bytes": bytes,
            "expected": model.under(bytes as f64).map(|expected| json_of(estimate, &expected)),
        })
    });
    let curve = model.times.iter().map(
        |time| json!({ "within_s": time, "bytes": whole(model.touched_pages(*time) * 4096.0) }),
    );
    json!({
        "schema_version": SCHEMA_VERSION,
        "pid": estimate.pid,
        "program": estimate.name,
        "command_line": estimate.command_line,
        "unfit": estimate.unfit,
        "native_bytes": survey.anonymous_bytes,
        "manageable_bytes": survey.managed_pages() * 4096,
        "unmanaged_bytes": unmanaged,
        "other_resident_bytes": survey.other_bytes,
        "ages": {
            "means": means,
            "why_unknown": why,
            "watched_s": estimate.seen.watched_s,
            "cpu_share": estimate.seen.cpu_share,
            "touched": curve.collect::<Vec<Value>>(),
            "rows": age_rows(estimate)
                .into_iter()
                .map(|(age, bytes, share)| json!({"age": age, "bytes": whole(bytes), "share": share}))
                .collect::<Vec<Value>>(),
        },
        "content": content(estimate),
        "overhead_bytes": whole(model.overhead_bytes()),
        "windows": whole(model.windows),
        "settles_quickly": knows.then(|| model.settles_quickly()),
        "by_default": knows.then(|| json_of(estimate, &model.by_default())),
        "later": knows.then(|| model.later()).flatten().map(|later| json_of(estimate, &later)),
        "least_possible": json_of(estimate, &model.least()),
        "budgets": under.collect::<Vec<Value>>(),
        "suggested_budget_bytes": estimate.suggested_budget(),
    })
}

fn content(estimate: &Estimate) -> Value {
    let content = &estimate.content;
    let pages = content.pages.max(1) as f64;
    let stored = content.stored();
    json!({
        "sampled_pages": content.pages,
        "zero_share": content.zero as f64 / pages,
        "same_filled_share": content.same_filled as f64 / pages,
        "incompressible_share": content.incompressible as f64 / pages,
        "stored_share": stored as f64 / pages,
        "stored_page_bytes": match stored {
            0 => Value::Null,
            stored => json!(content.stored_bytes / stored as f64),
        },
        "packing": estimate.packing,
        "anew": estimate.model.anew,
        "codec": estimate.storing.codec.to_string(),
        "storage": estimate.storing.storage.name(),
    })
}

fn json_of(estimate: &Estimate, expected: &Expected) -> Value {
    let native = estimate.native_bytes();
    json!({
        "held_bytes": whole(expected.held_bytes),
        "least_bytes": whole(expected.least_bytes),
        "most_bytes": whole(expected.most_bytes),
        "saved_bytes": whole(native - expected.held_bytes),
        "resident_bytes": whole(expected.resident_bytes),
        "incompressible_bytes": whole(expected.incompressible_bytes),
        "storage_bytes": whole(expected.storage_bytes),
        "window_s": expected.window_s.is_finite().then_some(expected.window_s),
        "refaults_s": expected.refaults_s,
        "is_bound": expected.is_bound,
        "processor_share": expected.processor_share(),
        "wait_share": expected.wait_share(),
    })
}

/// Whole bytes; what is below none is none.
fn whole(bytes: f64) -> u64 {
    bytes.max(0.0).round() as u64
}
