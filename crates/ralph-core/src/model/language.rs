//! The languages of messages about loops.

use serde::{Deserialize, Serialize};

#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lang {
    #[default]
    #[serde(rename = "en")]
    En,
    #[serde(rename = "zh-TW")]
    ZhTw,
    #[serde(rename = "zh-CN")]
    ZhCn,
    #[serde(rename = "es")]
    Es,
}

impl Lang {
    pub const ALL: [Self; 4] = [Self::En, Self::ZhTw, Self::ZhCn, Self::Es];

    /// Reads a language tag (`zh-Hant`) or the name of a locale (`zh_TW.UTF-8`). None for unsupported languages.
    pub fn from_tag(tag: &str) -> Option<Self> {
        let name = tag.trim().split(['.', '@']).next().unwrap_or_default().to_ascii_lowercase();
        let mut subtags = name.split(['-', '_']);
        match subtags.next()? {
            "en" | "c" | "posix" => Some(Self::En),
            "es" => Some(Self::Es),
            "zh" => Some(Self::chinese(&subtags.collect::<Vec<_>>())),
            _ => None,
        }
    }

    /// The script decides, then the region; simplified is the default.
    fn chinese(subtags: &[&str]) -> Self {
        let has = |subtag: &str| subtags.contains(&subtag);
        let traditional = has("hant") || !has("hans") && ["tw", "hk", "mo"].into_iter().any(has);
        if traditional { Self::ZhTw } else { Self::ZhCn }
    }

    /// The first supported language of the flag, `RALPH_LANG` and `LANG`; otherwise English.
    pub fn pick(flag: Option<Self>, ralph_lang: Option<&str>, lang: Option<&str>) -> Self {
        flag.or_else(|| ralph_lang.and_then(Self::from_tag))
            .or_else(|| lang.and_then(Self::from_tag))
            .unwrap_or_default()
    }

    pub fn tag(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::ZhTw => "zh-TW",
            Self::ZhCn => "zh-CN",
            Self::Es => "es",
        }
    }
}
