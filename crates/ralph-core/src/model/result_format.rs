//! The supported result formats by their config names.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

macro_rules! formats {
    ($($variant:ident => $name:literal,)+) => {
        /// The format of a tool's output or of report files.
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum ResultFormat {
            $(#[serde(rename = $name)] $variant,)+
        }

        impl ResultFormat {
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }
    };
}

formats! {
    CargoTest => "cargo-test",
    Nextest => "nextest",
    Pytest => "pytest",
    Unittest => "unittest",
    Vitest => "vitest",
    Jest => "jest",
    Mocha => "mocha",
    NodeTest => "node-test",
    Tap => "tap",
    GoTest => "go-test",
    GoJson => "go-json",
    Rspec => "rspec",
    Minitest => "minitest",
    Phpunit => "phpunit",
    ExUnit => "exunit",
    Ctest => "ctest",
    Junit => "junit",
    Trx => "trx",
    Sarif => "sarif",
    Rustc => "rustc",
    Tsc => "tsc",
    Eslint => "eslint",
    Mypy => "mypy",
    Pyright => "pyright",
    Ruff => "ruff",
    Flake8 => "flake8",
    Gcc => "gcc",
    GoVet => "go-vet",
    Javac => "javac",
    Shellcheck => "shellcheck",
    Generic => "generic",
}

impl fmt::Display for ResultFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An unsupported format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown results format `{0}`")]
pub struct UnknownResultFormat(pub String);

impl FromStr for ResultFormat {
    type Err = UnknownResultFormat;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.iter().find(|format| format.name() == name);
        found.copied().ok_or_else(|| UnknownResultFormat(name.to_owned()))
    }
}
