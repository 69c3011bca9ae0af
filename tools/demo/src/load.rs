//! A client that keeps writing, over a connection of its own, while everything else is read back.
//!
//! It writes value after value of a sequence of its own under a fixed set of keys, round and round, so that
//! redis frees and allocates all the time and holds as much as before. Which value a key has at the end
//! follows from how many were written; [`Load::check`] compares each.

use crate::comparison::Comparison;
use crate::records;
use crate::resp::Client;
use crate::server::{BATCH, Phase};
use anyhow::{Context, Result, anyhow};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Instant;

/// Of all records, one in so many is written again and again.
const SHARE: u64 = 20;

/// The records that are written again and again.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    seed: u64,
    /// Keys there are.
    keys: u64,
}

/// A client that writes until it is told to end.
pub struct Loading {
    end: Arc<AtomicBool>,
    thread: JoinHandle<Result<Phase>>,
}

impl Load {
    /// Beside `records` records of the sequence `seed`.
    pub fn beside(seed: u64, records: u64) -> Load {
        Load {
            seed: seed.wrapping_add(1),
            keys: (records / SHARE).next_multiple_of(BATCH),
        }
    }

    /// Writes each key once.
    pub fn begin(self, socket: &Path) -> Result<()> {
        let mut client = Client::connect(socket)?;
        for batch in 0..self.keys / BATCH {
            self.write(&mut client, batch)?;
        }
        Ok(())
    }

    /// Goes on after [`Load::begin`], until [`Loading::end`].
    pub fn go_on(self, socket: &Path) -> Result<Loading> {
        let mut client = Client::connect(socket)?;
        let end = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&end);
        let thread = std::thread::Builder::new().name("load".into());
        let thread = thread.spawn(move || {
            let (begun, mut bytes, first) = (Instant::now(), 0, self.keys / BATCH);
            let mut batch = first;
            while !told.load(Relaxed) {
                bytes += self.write(&mut client, batch)?;
                batch += 1;
            }
            Ok(Phase {
                records: (batch - first) * BATCH,
                bytes,
                seconds: begun.elapsed().as_secs_f64(),
                mismatches: 0,
            })
        })?;
        Ok(Loading { end, thread })
    }

    /// Compares every key with what was written last, `written` values after [`Load::begin`]. How many differ.
    pub fn check(self, client: &mut Client, written: u64) -> Result<u64> {
        let (mut key, mut expected) = (Vec::new(), Vec::new());
        let mut comparison = Comparison::new("MISMATCH in what was written meanwhile");
        for n in 0..self.keys {
            name(n, &mut key);
            records::value(self.seed, self.last(n, written), &mut expected);
            let reply = client.call(&[b"GET", &key])?;
            comparison.add(client, &reply, n, &expected)?;
        }
        Ok(comparison.mismatches)
    }

    /// The number of the value that key `n` had last.
    fn last(self, n: u64, written: u64) -> u64 {
        n + (self.keys + written - 1 - n) / self.keys * self.keys
    }

    /// Writes a batch of values, and waits for the answers. The bytes of their values.
    fn write(self, client: &mut Client, batch: u64) -> Result<u64> {
        let (mut key, mut value, mut bytes) = (Vec::new(), Vec::new(), 0);
        for number in batch * BATCH..(batch + 1) * BATCH {
            name(number % self.keys, &mut key);
            records::value(self.seed, number, &mut value);
            bytes += value.len() as u64;
            client.request(&[b"SET", &key, &value]);
        }
        client.send()?;
        client.stored(BATCH)?;
        Ok(bytes)
    }
}

impl Loading {
    /// Ends it. What it wrote.
    pub fn end(self) -> Result<Phase> {
        self.end.store(true, Relaxed);
        let done = self.thread.join();
        done.map_err(|_| anyhow!("the client that writes meanwhile panicked"))?
            .context("the client that writes meanwhile")
    }
}

fn name(n: u64, out: &mut Vec<u8>) {
    records::key(n, out);
    out.splice(..b"record".len(), *b"load");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_of_a_key_is_the_last_that_was_written() {
        let load = Load { seed: 1, keys: 128 };
        for written in [0, 64, 128, 192, 64 * 77] {
            let mut last = [0; 128];
            for number in 0..load.keys + written {
                last[(number % load.keys) as usize] = number;
            }
            for (n, last) in (0..).zip(last) {
                assert_eq!(load.last(n, written), last, "key {n} after {written}");
            }
        }
    }

    #[test]
    fn its_keys_are_not_those_of_the_records() {
        let mut key = Vec::new();
        name(77, &mut key);
        assert_eq!(key, b"load:77");
    }
}
