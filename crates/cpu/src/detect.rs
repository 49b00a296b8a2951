//! What this machine is: instruction sets, tiers, threads, memory.
//!
//! Everything is read when asked for, from CPUID, `/proc` and `/sys`; what cannot be read falls back to something safe.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A family of kernels; every tier computes the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tier {
    /// Portable code.
    Generic,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 with byte operations, VBMI and VNNI.
    Avx512,
    /// AVX-512 and the tile unit with int8 and bf16.
    Amx,
}

impl Tier {
    /// All tiers, slowest first.
    pub const ALL: [Self; 4] = [Self::Generic, Self::Avx2, Self::Avx512, Self::Amx];

    /// Name as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Amx => "amx",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A tier name that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a CPU tier is one of generic, avx2, avx512, amx; got {0:?}")]
pub struct UnknownTier(pub String);

impl FromStr for Tier {
    type Err = UnknownTier;

    fn from_str(text: &str) -> Result<Self, UnknownTier> {
        Self::ALL
            .into_iter()
            .find(|tier| tier.name() == text)
            .ok_or_else(|| UnknownTier(text.to_owned()))
    }
}

/// The instruction sets that matter to kernels, by name, and whether this processor (and system) has them. AMX is as the
/// processor says; the system has a word of its own in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuFeatures {
    present: Vec<(&'static str, bool)>,
    /// Why tiles cannot be used although the processor has them.
    tiles_refused: Option<&'static str>,
}

/// What the AVX2 tier needs.
const AVX2_NEEDS: [&str; 3] = ["avx2", "fma", "f16c"];
/// What the AVX-512 tier needs beside [`AVX2_NEEDS`].
const AVX512_NEEDS: [&str; 6] = [
    "avx512f",
    "avx512bw",
    "avx512vl",
    "avx512dq",
    "avx512vbmi",
    "avx512vnni",
];
/// What the AMX tier needs beside [`AVX2_NEEDS`] and [`AVX512_NEEDS`].
const AMX_NEEDS: [&str; 3] = ["amx-tile", "amx-int8", "amx-bf16"];

impl CpuFeatures {
    /// Asks the processor.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        let present = vec![
            ("avx2", std::is_x86_feature_detected!("avx2")),
            ("fma", std::is_x86_feature_detected!("fma")),
            ("f16c", std::is_x86_feature_detected!("f16c")),
            ("avxvnni", std::is_x86_feature_detected!("avxvnni")),
            ("avx512f", std::is_x86_feature_detected!("avx512f")),
            ("avx512bw", std::is_x86_feature_detected!("avx512bw")),
            ("avx512vl", std::is_x86_feature_detected!("avx512vl")),
            ("avx512dq", std::is_x86_feature_detected!("avx512dq")),
            ("avx512vbmi", std::is_x86_feature_detected!("avx512vbmi")),
            ("avx512vnni", std::is_x86_feature_detected!("avx512vnni")),
            ("avx512bf16", std::is_x86_feature_detected!("avx512bf16")),
            ("amx-tile", has_leaf_7_edx_bit(24)),
            ("amx-bf16", has_leaf_7_edx_bit(22)),
            ("amx-int8", has_leaf_7_edx_bit(25)),
        ];
        #[cfg(not(target_arch = "x86_64"))]
        let present = Vec::new();
        let mut features = Self {
            present,
            tiles_refused: None,
        };
        #[cfg(target_arch = "x86_64")]
        if AMX_NEEDS.iter().all(|name| features.has(name)) {
            features.tiles_refused = crate::arch::amx::state::refusal();
        }
        features
    }

    /// A processor with exactly these sets.
    #[cfg(test)]
    pub(crate) fn from_names(names: &[&'static str]) -> Self {
        Self {
            present: names.iter().map(|name| (*name, true)).collect(),
            tiles_refused: None,
        }
    }

    /// Whether a set is there; unknown names are not.
    pub fn has(&self, name: &str) -> bool {
        self.present
            .iter()
            .any(|(known, present)| *known == name && *present)
    }

    /// Names of the sets that are there.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.present
            .iter()
            .filter(|(_, present)| *present)
            .map(|(name, _)| *name)
    }

    /// Why a tier cannot run here; `None` when it can.
    pub fn missing(&self, tier: Tier) -> Option<String> {
        let needs: &[&[&str]] = match tier {
            Tier::Generic => &[],
            Tier::Avx2 => &[&AVX2_NEEDS],
            Tier::Avx512 => &[&AVX2_NEEDS, &AVX512_NEEDS],
            Tier::Amx => &[&AVX2_NEEDS, &AVX512_NEEDS, &AMX_NEEDS],
        };
        let missing: Vec<&str> = needs
            .iter()
            .copied()
            .flatten()
            .copied()
            .filter(|name| !self.has(name))
            .collect();
        if !missing.is_empty() {
            return Some(format!("this processor lacks {}", missing.join(", ")));
        }
        let refused = self.tiles_refused.filter(|_| tier == Tier::Amx);
        refused.map(str::to_owned)
    }

    /// The tiers that run here, slowest first.
    pub fn tiers(&self) -> Vec<Tier> {
        Tier::ALL
            .into_iter()
            .filter(|tier| self.missing(*tier).is_none())
            .collect()
    }

    /// The fastest tier that runs here.
    pub fn best_tier(&self) -> Tier {
        self.tiers()
            .into_iter()
            .next_back()
            .unwrap_or(Tier::Generic)
    }
}

/// A feature bit of CPUID leaf 7, subleaf 0, register EDX: where AMX stands, which `is_x86_feature_detected` does not know.
/// Source: Intel SDM volume 2, CPUID.
#[cfg(target_arch = "x86_64")]
fn has_leaf_7_edx_bit(bit: u32) -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    // Beyond the last leaf a processor answers with some other leaf's bits.
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx >> bit & 1 == 1
}

/// Marketing name of the processor, or its architecture.
pub fn cpu_model() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    info.lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or_else(
            || std::env::consts::ARCH.to_owned(),
            |(_, name)| name.trim().to_owned(),
        )
}

/// Physical cores among the CPUs that this process may use; at least 1.
pub fn physical_cores() -> usize {
    let cores: BTreeSet<String> = allowed_cpus()
        .into_iter()
        .map(|cpu| {
            let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
            fs::read_to_string(path).unwrap_or_else(|_| cpu.to_string())
        })
        .collect();
    cores.len().max(1)
}

/// Threads that make sense here: physical cores, but no more than affinity and the cgroup's quota allow; at least 1.
pub fn default_threads() -> usize {
    let allowed = std::thread::available_parallelism().map_or(1, usize::from);
    physical_cores().min(allowed).max(1)
}

/// CPUs that this process may use, ascending; empty when the system does not say.
fn allowed_cpus() -> Vec<usize> {
    sched_getaffinity(None).map_or_else(
        |_| Vec::new(),
        |set| {
            (0..CpuSet::MAX_CPU)
                .filter(|cpu| set.is_set(*cpu))
                .collect()
        },
    )
}

/// Keeps this thread on the `index`-th allowed CPU (round robin); does nothing where the system refuses.
pub(crate) fn pin_to_allowed_cpu(index: usize) {
    let allowed = allowed_cpus();
    if allowed.len() < 2 {
        return;
    }
    let mut set = CpuSet::new();
    set.set(allowed[index % allowed.len()]);
    // A refusal costs speed only.
    let _ = sched_setaffinity(None, &set);
}

/// Size of the largest cache that a CPU of this machine reads through, in bytes; `None` when the system does not say.
pub fn last_level_cache_bytes() -> Option<u64> {
    let folder = Path::new("/sys/devices/system/cpu/cpu0/cache");
    let caches = fs::read_dir(folder).ok()?.flatten();
    caches
        .filter_map(|cache| parse_cache_size(&fs::read_to_string(cache.path().join("size")).ok()?))
        .max()
}

/// A size as the kernel writes it: `48K`, `260M`, or plain bytes.
fn parse_cache_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, factor) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// Memory nodes of the machine; 1 when the system does not say.
pub fn numa_nodes() -> usize {
    let Ok(entries) = std::fs::read_dir("/sys/devices/system/node") else {
        return 1;
    };
    let nodes = entries.flatten().filter(|entry| {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("node"));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    });
    nodes.count().max(1)
}

/// Memory of the machine or of the container, whichever is smaller, in bytes; `None` when the system does not say.
pub fn total_memory_bytes() -> Option<u64> {
    let limits = cgroup_folders()
        .into_iter()
        .filter_map(|folder| folder.limit_bytes());
    limits.chain(meminfo_bytes("MemTotal:")).min()
}

/// Memory that can still be had without swapping, the container's limit considered, in bytes; `None` when the system does
/// not say.
pub fn available_memory_bytes() -> Option<u64> {
    let rooms = cgroup_folders().into_iter().filter_map(|folder| {
        Some(
            folder
                .limit_bytes()?
                .saturating_sub(folder.used_bytes().unwrap_or(0)),
        )
    });
    rooms.chain(meminfo_bytes("MemAvailable:")).min()
}

fn meminfo_bytes(key: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    parse_meminfo(&text, key)
}

fn parse_meminfo(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

/// A folder of the memory controller; limits hold for all folders from this process's own up to the root.
struct CgroupFolder {
    path: PathBuf,
    version: u8,
}

impl CgroupFolder {
    fn limit_bytes(&self) -> Option<u64> {
        let file = if self.version == 2 {
            "memory.max"
        } else {
            "memory.limit_in_bytes"
        };
        read_number(&self.path.join(file))
    }

    /// Memory in use that the kernel cannot simply drop.
    fn used_bytes(&self) -> Option<u64> {
        let file = if self.version == 2 {
            "memory.current"
        } else {
            "memory.usage_in_bytes"
        };
        let stat = fs::read_to_string(self.path.join("memory.stat")).unwrap_or_default();
        let key = if self.version == 2 {
            "inactive_file "
        } else {
            "total_inactive_file "
        };
        let droppable = stat
            .lines()
            .find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok())
            .unwrap_or(0);
        Some(read_number(&self.path.join(file))?.saturating_sub(droppable))
    }
}

/// `max` and other words are no number, and so no limit.
fn read_number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn cgroup_folders() -> Vec<CgroupFolder> {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut folders = Vec::new();
    for (version, group) in parse_cgroups(&text) {
        let root = if version == 2 {
            "/sys/fs/cgroup"
        } else {
            "/sys/fs/cgroup/memory"
        };
        let own = Path::new(group.trim_start_matches('/'));
        for folder in own.ancestors() {
            folders.push(CgroupFolder {
                path: Path::new(root).join(folder),
                version,
            });
        }
    }
    folders
}

/// The memory controller's entries of `/proc/self/cgroup`: version and path.
fn parse_cgroups(text: &str) -> Vec<(u8, &str)> {
    text.lines()
        .filter_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            match controllers {
                "" => Some((2, path)),
                some if some.split(',').any(|name| name == "memory") => Some((1, path)),
                _ => None,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tier_names_parse_back_and_others_are_named() {
        for tier in Tier::ALL {
            assert_eq!(tier.to_string().parse(), Ok(tier));
        }
        let error = "sse9".parse::<Tier>().expect_err("no such tier");
        assert_eq!(
            error.to_string(),
            "a CPU tier is one of generic, avx2, avx512, amx; got \"sse9\""
        );
    }

    #[test]
    fn a_tier_is_available_exactly_when_nothing_is_missing() {
        let features = CpuFeatures {
            present: vec![("avx2", true), ("fma", true), ("f16c", false)],
            tiles_refused: None,
        };
        assert_eq!(features.tiers(), [Tier::Generic]);
        assert_eq!(features.best_tier(), Tier::Generic);
        assert_eq!(
            features.missing(Tier::Avx2).as_deref(),
            Some("this processor lacks f16c")
        );
        let needs = [&AVX2_NEEDS[..], &AVX512_NEEDS, &AMX_NEEDS].concat();
        let mut features = CpuFeatures::from_names(&needs);
        assert_eq!(features.tiers().pop(), Some(Tier::Amx));
        assert_eq!(features.best_tier(), Tier::Amx);
        features.tiles_refused = Some("the system says no");
        assert_eq!(features.best_tier(), Tier::Avx512);
        assert_eq!(features.tiers().pop(), Some(Tier::Avx512));
        assert_eq!(
            features.missing(Tier::Amx).as_deref(),
            Some("the system says no")
        );
        let real = CpuFeatures::detect();
        assert!(real.tiers().contains(&Tier::Generic));
        assert!(real.names().all(|name| real.has(name)));
    }

    #[test]
    fn this_machine_has_cores_and_memory() {
        assert!(physical_cores() >= 1);
        assert!((1..=physical_cores()).contains(&default_threads()));
        assert!(!cpu_model().is_empty());
        if let (Some(total), Some(free)) = (total_memory_bytes(), available_memory_bytes()) {
            assert!(0 < free && free <= total, "{free} of {total}");
        }
    }

    #[test]
    fn system_files_parse_or_are_ignored() {
        assert_eq!(parse_cache_size("48K\n"), Some(48 << 10));
        assert_eq!(parse_cache_size("1M"), Some(1 << 20));
        assert_eq!(parse_cache_size("512"), Some(512));
        assert_eq!(parse_cache_size("unknown"), None);
        assert_eq!(parse_cache_size("99999999999999999999M"), None);
        let meminfo = "MemTotal:       16 kB\nMemAvailable:    8 kB\nHugePages_Total:       0\n";
        assert_eq!(parse_meminfo(meminfo, "MemAvailable:"), Some(8192));
        assert_eq!(parse_meminfo(meminfo, "HugePages_Total:"), None);
        assert_eq!(
            parse_meminfo("MemTotal: 99999999999999999999 kB", "MemTotal:"),
            None
        );
        let cgroup = "5:cpu,cpuacct:/a\n4:memory:/b/c\n0::/d\nnonsense\n";
        assert_eq!(parse_cgroups(cgroup), [(1, "/b/c"), (2, "/d")]);
    }
}
