//! Values as they are read back, against what was written.

use crate::resp::{Client, Reply};
use anyhow::{Result, bail};

/// So many differences are printed.
const SHOWN: u64 = 5;

/// The values of one phase.
pub struct Comparison {
    /// What a difference is announced by.
    title: &'static str,
    /// Values that were not what was written.
    pub mismatches: u64,
}

impl Comparison {
    /// None yet.
    pub fn new(title: &'static str) -> Comparison {
        Comparison {
            title,
            mismatches: 0,
        }
    }

    /// Compares the client's last reply, to a GET of record `index`.
    pub fn add(
        &mut self,
        client: &Client,
        reply: &Reply,
        index: u64,
        expected: &[u8],
    ) -> Result<()> {
        match reply {
            Reply::Bulk if client.bulk == expected => {}
            Reply::Bulk | Reply::Nil => {
                self.mismatches += 1;
                if self.mismatches <= SHOWN {
                    let what = difference(index, reply, &client.bulk, expected);
                    eprintln!("\n{}: {what}", self.title);
                }
            }
            other => bail!("GET answered {other:?}"),
        }
        Ok(())
    }
}

fn difference(index: u64, reply: &Reply, got: &[u8], expected: &[u8]) -> String {
    if *reply == Reply::Nil {
        return format!("record {index} is gone");
    }
    let same = got.iter().zip(expected).take_while(|(a, b)| a == b).count();
    format!(
        "record {index}: {} bytes instead of {}, different from byte {same} on",
        got.len(),
        expected.len()
    )
}
