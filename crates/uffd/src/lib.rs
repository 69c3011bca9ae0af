//! Every userfaultfd and pagemap call that Coldpress makes, and their unsafe.
