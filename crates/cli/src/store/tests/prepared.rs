//! Prepared weights: the same bytes wherever they come from, and files that come, go and are never believed blindly.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use ucuz_cpu::{CpuBackend, CpuOptions, Tier};
use ucuz_formats::Checkpoint;
use ucuz_models::cache_spec;
use ucuz_models::registry::LoadOptions;
use ucuz_tensor::destination::{Destination, MakeChunk, PartPlan};
use ucuz_tensor::part_bytes::PartBytes;
use ucuz_tensor::{KvDtype, OnLoad, TensorResult, WeightOptions};

use crate::store::prepared::{PreparedCache, Weights};

fn backend() -> CpuBackend {
    CpuBackend::new(CpuOptions::quiet(Tier::Generic, 2)).unwrap()
}

fn golden(model: &str) -> PathBuf {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    golden.join(model)
}

fn cache(folder: &Path) -> PreparedCache {
    PreparedCache {
        folder: folder.to_owned(),
        bytes_max: 1 << 30,
        worth_bytes: 0,
    }
}

/// Remembers each part's name, bytes, and whether they are in memory of their own.
struct Recording<'a> {
    weights: &'a mut Weights,
    parts: Vec<(String, Vec<u8>)>,
    own: usize,
}

impl Destination for Recording<'_> {
    fn place(&mut self, plan: &PartPlan<'_>, make: &mut MakeChunk<'_>) -> TensorResult<PartBytes> {
        let bytes = self.weights.place(plan, make)?;
        self.own += usize::from(bytes.is_own());
        self.parts
            .push((plan.name.to_owned(), bytes.bytes().to_vec()));
        Ok(bytes)
    }
}

/// The parts of a model, and how many of them are in memory of their own.
fn load(
    weights: &mut Weights,
    checkpoint: &Checkpoint,
    on_load: OnLoad,
) -> (Vec<(String, Vec<u8>)>, usize) {
    let backend = backend();
    let mut recording = Recording {
        weights,
        parts: Vec::new(),
        own: 0,
    };
    let options = LoadOptions {
        backend: &backend,
        cache: cache_spec(&checkpoint.config, KvDtype::Bf16),
        context: 32,
        weights: WeightOptions {
            on_load,
            ..WeightOptions::default()
        },
        progress: Box::new(|_| {}),
    };
    ucuz_models::load_into(&mut recording, checkpoint, options).unwrap();
    (recording.parts, recording.own)
}

/// One start: `Found`, `Made` or `Memory`, the parts, how many are not from a file.
fn start(
    cache: &PreparedCache,
    checkpoint: &Checkpoint,
    on_load: OnLoad,
) -> (&'static str, Vec<(String, Vec<u8>)>, usize) {
    let mut weights = cache.open(checkpoint, &backend(), on_load);
    let kind = match weights {
        Weights::Memory(_) => "memory",
        Weights::Found(_) => "found",
        Weights::Made(_) => "made",
    };
    let (parts, own) = load(&mut weights, checkpoint, on_load);
    weights.finish(checkpoint);
    (kind, parts, own)
}

fn kind(cache: &PreparedCache, checkpoint: &Checkpoint) -> &'static str {
    start(cache, checkpoint, OnLoad::AsStored).0
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// A model of its own in a folder of its own, that may be changed.
fn model() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    fs::copy(
        golden("tiny-gguf").join(any_gguf()).join("model.gguf"),
        &path,
    )
    .unwrap();
    (folder, path)
}

fn any_gguf() -> String {
    ggufs().swap_remove(0)
}

fn ggufs() -> Vec<String> {
    let entries = fs::read_dir(golden("tiny-gguf")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names
        .filter(|name| golden("tiny-gguf").join(name).join("model.gguf").exists())
        .collect();
    names.sort();
    assert!(names.len() >= 3, "{names:?}");
    names
}

#[test]
fn prepared_weights_equal_repacked_ones() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path());
    let safetensors = ["tiny/llama-gqa", "tiny/qwen2"].map(golden);
    let ggufs = ggufs().into_iter();
    let ggufs = ggufs.map(|name| golden("tiny-gguf").join(name).join("model.gguf"));
    for path in ggufs.chain(safetensors) {
        let checkpoint = Checkpoint::open(&path).unwrap();
        for on_load in [OnLoad::AsStored, OnLoad::W8A8] {
            let what = format!("{} {}", path.display(), on_load.name());
            let (memory, own) = load(&mut Weights::memory(), &checkpoint, on_load);
            assert!(own == memory.len() && own > 0);
            let (kind, made, own) = start(&cache, &checkpoint, on_load);
            assert_eq!((kind, own), ("made", 0), "{what}");
            assert!(made == memory, "{what}: written and mapped");
            let (kind, found, own) = start(&cache, &checkpoint, on_load);
            assert_eq!((kind, own), ("found", 0), "{what}");
            assert!(found == memory, "{what}: found");
        }
    }
}

#[test]
fn a_changed_model_is_prepared_again() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path());
    let (_keep, path) = model();
    let open = || Checkpoint::open(&path).unwrap();
    assert_eq!(kind(&cache, &open()), "made");
    assert_eq!(kind(&cache, &open()), "found");
    // The last weight changes in place, and the file gets its old time back.
    let time = path.metadata().unwrap().modified().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    File::open(&path).unwrap().set_modified(time).unwrap();
    assert_eq!(kind(&cache, &open()), "made");
    assert_eq!(files(folder.path()).len(), 2);
}

#[test]
fn a_model_that_changes_while_it_is_read_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path());
    let (_keep, path) = model();
    let checkpoint = Checkpoint::open(&path).unwrap();
    let mut weights = cache.open(&checkpoint, &backend(), OnLoad::AsStored);
    load(&mut weights, &checkpoint, OnLoad::AsStored);
    File::open(&path)
        .unwrap()
        .set_modified(SystemTime::UNIX_EPOCH)
        .unwrap();
    weights.finish(&checkpoint);
    assert!(files(folder.path()).is_empty());
}

#[test]
fn a_damaged_file_is_removed_and_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path());
    let (_keep, path) = model();
    let checkpoint = Checkpoint::open(&path).unwrap();
    let (_, expected, _) = start(&cache, &checkpoint, OnLoad::AsStored);
    let [file] = files(folder.path()).try_into().unwrap();
    let whole = fs::read(&file).unwrap();
    // In a part: the others are taken, this one is made, the next start makes a file.
    let mut damaged = whole.clone();
    damaged[4100] ^= 1;
    fs::write(&file, damaged).unwrap();
    let (kind_now, parts, own) = start(&cache, &checkpoint, OnLoad::AsStored);
    assert_eq!((kind_now, own), ("found", 1));
    assert!(parts == expected);
    assert_eq!(kind(&cache, &checkpoint), "made");
    assert!(fs::read(&file).unwrap() == whole);
    // Cut short: the file is made anew at once.
    fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    let (kind_now, parts, _) = start(&cache, &checkpoint, OnLoad::AsStored);
    assert_eq!(kind_now, "made");
    assert!(parts == expected);
    assert!(fs::read(&file).unwrap() == whole);
}

#[test]
fn the_longest_unused_goes_first() {
    let folder = tempfile::tempdir().unwrap();
    let model_of = |name: &str| {
        let path = golden("tiny-gguf").join(name).join("model.gguf");
        Checkpoint::open(&path).unwrap()
    };
    // The last one is the smallest: it fits where the second was.
    let models = ["llama3-rope-f32", "llama-gqa-f32", "llama-gqa-q8_0"].map(model_of);
    let all = cache(folder.path());
    for (age, model) in [300, 200].into_iter().zip(&models) {
        let before = files(folder.path());
        assert_eq!(kind(&all, model), "made");
        let new = files(folder.path())
            .into_iter()
            .find(|f| !before.contains(f));
        let then = SystemTime::now() - Duration::from_secs(age);
        File::open(new.unwrap())
            .unwrap()
            .set_modified(then)
            .unwrap();
    }
    // Used now, so the other one is the oldest.
    assert_eq!(kind(&all, &models[0]), "found");
    let sizes = files(folder.path())
        .into_iter()
        .map(|f| f.metadata().unwrap().len());
    let tight = PreparedCache {
        bytes_max: sizes.sum::<u64>() + 1000,
        ..all.clone()
    };
    assert_eq!(kind(&tight, &models[2]), "made");
    assert_eq!(kind(&all, &models[0]), "found");
    assert_eq!(kind(&all, &models[2]), "found");
    assert_eq!(kind(&all, &models[1]), "made", "it was removed");
}

#[test]
fn what_cannot_or_shall_not_be_kept_comes_to_memory() {
    let folder = tempfile::tempdir().unwrap();
    let (_keep, path) = model();
    let checkpoint = Checkpoint::open(&path).unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "no folder").unwrap();
    let all = cache(&file.join("below"));
    let small = PreparedCache {
        worth_bytes: 1 << 28,
        ..cache(folder.path())
    };
    let tight = PreparedCache {
        bytes_max: 1000,
        ..cache(folder.path())
    };
    for refusing in [all, small, tight] {
        assert_eq!(kind(&refusing, &checkpoint), "memory", "{refusing:?}");
    }
    assert_eq!(files(folder.path()), [file]);
}

#[test]
fn the_second_process_leaves_the_writing_to_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path());
    let (_keep, path) = model();
    let checkpoint = Checkpoint::open(&path).unwrap();
    let first = cache.open(&checkpoint, &backend(), OnLoad::AsStored);
    assert!(matches!(first, Weights::Made(_)));
    assert_eq!(kind(&cache, &checkpoint), "memory");
    drop(first);
    assert_eq!(kind(&cache, &checkpoint), "made");
}
