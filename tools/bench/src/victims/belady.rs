//! Belady's bound: the page that is wanted last goes. No policy has fewer refaults, and none can know as much.

use std::collections::BinaryHeap;

/// Never touched again.
const NEVER: u32 = u32::MAX;

/// Refaults of `touches` (of pages below `pages`) where `memory` pages are held.
pub fn refaults(touches: &[u32], pages: usize, memory: usize) -> u64 {
    let next = next_touches(touches, pages);
    let mut seen = vec![false; pages];
    // When a page that is held is touched next; `None`: it is not held.
    let mut held: Vec<Option<u32>> = vec![None; pages];
    // Of a page, only the entry that `held` names counts.
    let mut farthest = BinaryHeap::new();
    let (mut in_memory, mut refaults) = (0, 0);
    for (&page, &next) in touches.iter().zip(&next) {
        let at = page as usize;
        if held[at].is_none() {
            refaults += u64::from(std::mem::replace(&mut seen[at], true));
            in_memory += 1;
            while in_memory > memory {
                let (at_touch, victim): (u32, u32) = farthest.pop().expect("there are too many");
                let victim = &mut held[victim as usize];
                if *victim == Some(at_touch) {
                    *victim = None;
                    in_memory -= 1;
                }
            }
        }
        held[at] = Some(next);
        farthest.push((next, page));
    }
    refaults
}

/// For each touch, the number of the next one of its page.
fn next_touches(touches: &[u32], pages: usize) -> Vec<u32> {
    let mut next_of_page = vec![NEVER; pages];
    let mut next = vec![NEVER; touches.len()];
    for (number, &page) in touches.iter().enumerate().rev() {
        next[number] = std::mem::replace(&mut next_of_page[page as usize], number as u32);
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_last_goes() {
        // At 3, page 1 is wanted last; then all others are there.
        assert_eq!(refaults(&[0, 1, 2, 3, 0, 2, 3, 1], 4, 3), 1);
        assert_eq!(refaults(&[0, 1, 0, 1, 0, 1], 2, 1), 4);
        assert_eq!(refaults(&[0, 1, 0, 1, 0, 1], 2, 2), 0);
    }

    /// Of a loop of n pages in m, each round misses (n - m) of n - 1 at best.
    #[test]
    fn a_loop_has_the_refaults_of_the_book() {
        let touches: Vec<u32> = (0..101).flat_map(|_| 0..11).collect();
        let found = refaults(&touches, 11, 6);
        let expected = 100 * 11 * 5 / 10;
        assert!(found.abs_diff(expected) <= 6, "{found} and not {expected}");
    }
}
