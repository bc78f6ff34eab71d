//! Attacks that were found against the finished product, one file for each kind. Each of them succeeded once.

mod borrowed_trust;
mod foreign_programs;
mod linked_config;
mod loop_file_copy;
mod plain_loop;
mod terminal;
mod trust_show;
