//! How many bytes may be written in a day (zram: `writeback_limit`): flash wears out.

const DAY_SECONDS: u64 = 24 * 60 * 60;

pub(crate) struct Budget {
    daily_bytes: Option<u64>,
    left: u64,
    day_began: u64,
}

impl Budget {
    pub(crate) fn new(daily_bytes: Option<u64>, now_seconds: u64) -> Self {
        Self {
            daily_bytes,
            left: daily_bytes.unwrap_or(0),
            day_began: now_seconds,
        }
    }

    /// A new day has a new budget; what was left of the last one is gone.
    pub(crate) fn look(&mut self, now_seconds: u64) {
        if now_seconds.saturating_sub(self.day_began) >= DAY_SECONDS {
            *self = Self::new(self.daily_bytes, now_seconds);
        }
    }

    pub(crate) fn allows(&self, bytes: usize) -> bool {
        self.daily_bytes.is_none() || bytes as u64 <= self.left
    }

    pub(crate) fn spend(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes as u64);
    }

    pub(crate) fn left(&self) -> Option<u64> {
        self.daily_bytes.map(|_| self.left)
    }
}
