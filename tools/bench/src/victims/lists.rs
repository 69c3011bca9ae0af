//! Lists of pages, each page on one list at most: what the policies that others have published are made of.

/// On no list.
pub const NONE: usize = 0;

/// The number that stands for no page.
const NO_PAGE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    younger: u32,
    older: u32,
    list: u8,
}

#[derive(Clone, Copy)]
struct Ends {
    youngest: u32,
    oldest: u32,
    len: usize,
}

/// Doubly linked lists over page numbers; list 0 is [`NONE`].
pub struct Lists {
    nodes: Vec<Node>,
    ends: Vec<Ends>,
}

impl Lists {
    /// Empty lists, numbered from 1, for pages below `pages`.
    pub fn new(lists: usize, pages: usize) -> Self {
        let node = Node {
            younger: NO_PAGE,
            older: NO_PAGE,
            list: NONE as u8,
        };
        let ends = Ends {
            youngest: NO_PAGE,
            oldest: NO_PAGE,
            len: 0,
        };
        Self {
            nodes: vec![node; pages],
            ends: vec![ends; lists + 1],
        }
    }

    /// The list that a page is on, or [`NONE`].
    pub fn of(&self, page: u32) -> usize {
        self.nodes[page as usize].list.into()
    }

    /// Pages on a list.
    pub fn len(&self, list: usize) -> usize {
        self.ends[list].len
    }

    /// The page that came first to a list.
    pub fn oldest(&self, list: usize) -> Option<u32> {
        let oldest = self.ends[list].oldest;
        (oldest != NO_PAGE).then_some(oldest)
    }

    /// Puts a page on a list as its youngest, off the one that it was on.
    pub fn push(&mut self, list: usize, page: u32) {
        self.remove(page);
        let youngest = self.ends[list].youngest;
        self.nodes[page as usize] = Node {
            younger: NO_PAGE,
            older: youngest,
            list: list as u8,
        };
        match youngest {
            NO_PAGE => self.ends[list].oldest = page,
            youngest => self.nodes[youngest as usize].younger = page,
        }
        self.ends[list].youngest = page;
        self.ends[list].len += 1;
    }

    /// Takes a page off its list.
    pub fn remove(&mut self, page: u32) {
        let Node {
            younger,
            older,
            list,
        } = self.nodes[page as usize];
        let list = usize::from(list);
        if list == NONE {
            return;
        }
        match younger {
            NO_PAGE => self.ends[list].youngest = older,
            younger => self.nodes[younger as usize].older = older,
        }
        match older {
            NO_PAGE => self.ends[list].oldest = younger,
            older => self.nodes[older as usize].younger = younger,
        }
        self.ends[list].len -= 1;
        self.nodes[page as usize].list = NONE as u8;
    }

    /// Takes the oldest page off a list.
    pub fn pop(&mut self, list: usize) -> Option<u32> {
        let oldest = self.oldest(list)?;
        self.remove(oldest);
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_first_goes_first_and_a_page_is_on_one_list() {
        let mut lists = Lists::new(2, 5);
        (0..4).for_each(|page| lists.push(1, page));
        lists.push(2, 1);
        lists.push(1, 0);
        lists.remove(4);
        assert_eq!((lists.len(1), lists.len(2)), (3, 1));
        assert_eq!((lists.of(1), lists.of(4)), (2, NONE));
        let order: Vec<u32> = std::iter::from_fn(|| lists.pop(1)).collect();
        assert_eq!(order, [2, 3, 0]);
        assert_eq!((lists.pop(2), lists.pop(2)), (Some(1), None));
    }
}
