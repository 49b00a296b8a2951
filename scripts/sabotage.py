"""Breaks the scheduler and the block pool on purpose, one fault at a time, and sees whether the engine's tests notice.

    python scripts/sabotage.py [NAME ...]

Works on a copy of the tree, in target/sabotage. Exit code 1 when a fault is not noticed, or no longer applies.
"""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPY = ROOT / "target/sabotage/tree"
ENGINE = "crates/engine/src/"

# name: (file, what stands there, what stands there instead)
FAULTS = {
    "a skipped decrement": ("blocks/group.rs", "        *references -= 1;\n        if *references > 0 {", "        if *references > 1 {"),
    "a block given back twice": ("scheduler.rs", "                self.pool.release(group, block);\n            }\n        }\n        self.free_slots", "                self.pool.release(group, block);\n                self.pool.release(group, block);\n            }\n        }\n        self.free_slots"),
    "a wrong hash: no parent in it": ("prefix.rs", "self.hash(b\"next\", &[&parent.0.to_le_bytes(), &bytes])", "self.hash(b\"next\", &[&bytes])"),
    "a wrong hash: no scope in it": ("prefix.rs", "self.hash(b\"root\", &[&scope.0])", "self.hash(b\"root\", &[])"),
    "a name that is believed": ("blocks/group.rs", "(found == content).then_some(block)", "Some(block).filter(|_| found.depth < u32::MAX)"),
    "a visible unfinished block": ("commit.rs", "let whole = sequence.progress.computed / BLOCK_TOKENS;", "let whole = sequence.progress.computed.div_ceil(BLOCK_TOKENS).min(sequence.chain.len());"),
    "visible before it is computed": ("commit.rs", "let whole = sequence.progress.computed / BLOCK_TOKENS;", "let whole = sequence.progress.scheduled / BLOCK_TOKENS;"),
    "evicted from its beginning": ("scheduler.rs", "for block in table.into_iter().rev() {", "for block in table {"),
    "the newest evicted first": ("blocks/group.rs", "self.idle.first_key_value()?", "self.idle.last_key_value()?"),
    "given away under a step in flight": ("blocks/group.rs", "if rank.0 > steps.retired {", "if rank.0 > steps.launched {"),
    "freed under a step in flight": ("blocks/mod.rs", "if self.steps.launched > self.steps.retired {", "if self.steps.launched > self.steps.launched {"),
    "a wanted result from the cache": ("sequence.rs", "        wanted\n    }", "        wanted + 1\n    }"),
    "a wanted score from the cache": ("sequence.rs", "        wanted\n    }", "        self.progress.known - 1\n    }"),
    "a window forgotten": ("blocks/mod.rs", "(first_seen(&self.shapes[group], blocks)..blocks)\n                    .all(", "(blocks..blocks)\n                    .all("),
    "a taken name ignored": ("commit.rs", "Published::Taken => sequence.is_name_taken = true,", "Published::Taken => {}"),
    "the oldest preempted": ("sequences.rs", "self.running.iter().enumerate().skip(1)", "self.running.iter().enumerate()"),
    "a slot lost at preemption": ("scheduler.rs", "self.free_slots.extend(sequence.slot.take());", "sequence.slot.take();"),
    "results of an older epoch taken": ("commit.rs", "current.filter(|&index| sequences.running[index].epoch == entry.epoch)", "current.filter(|&index| sequences.running[index].epoch >= entry.epoch)"),
    "no patience": ("sequences.rs", "match waited >= PATIENCE {", "match waited >= PATIENCE * 1000 {"),
    "tenants not charged": ("commit.rs", "sequences.tenants.charge(tenant, served);", "sequences.tenants.charge(tenant, 0 * served);"),
    "equal prompts computed twice": ("admit.rs", "            if self.is_being_computed(sequences, candidate, blocks) {", "            if blocks > usize::MAX / 2 {"),
    "a place never given back": ("door.rs", "    pub(crate) fn leave(&self, tokens: usize) {\n        self.requests.fetch_sub(1, Ordering::AcqRel);", "    pub(crate) fn leave(&self, tokens: usize) {"),
    "an idle block counted as free while read": ("blocks/group.rs", "self.idle.len() - busy", "self.idle.len() - 0 * busy"),
}


def copy():
    for folder in ["crates", "tests"]:
        subprocess.run(["rsync", "-a", "--delete", f"{ROOT / folder}/", f"{COPY / folder}/"], check=True) if shutil.which("rsync") else fresh(folder)
    for name in ["Cargo.toml", "Cargo.lock", "clippy.toml", "rustfmt.toml"]:
        shutil.copy2(ROOT / name, COPY / name)


def fresh(folder):
    shutil.rmtree(COPY / folder, ignore_errors=True)
    shutil.copytree(ROOT / folder, COPY / folder)


def tests():
    command = ["cargo", "test", "--quiet", "-p", "ucuz-engine", "--lib", "--target-dir", str(ROOT / "target/sabotage/build")]
    return subprocess.run(command, cwd=COPY, capture_output=True, text=True)


COPY.mkdir(parents=True, exist_ok=True)
copy()
untouched = tests()
if untouched.returncode != 0:
    sys.exit(f"the tests fail before anything is broken:\n{untouched.stdout[-2000:]}{untouched.stderr[-2000:]}")
missed = []
for name in sys.argv[1:] or FAULTS:
    path, before, after = FAULTS[name]
    file = COPY / ENGINE / path
    text = file.read_text()
    if text.count(before) != 1:
        print(f"{name}: stands {text.count(before)} times in {path}")
        missed.append(name)
        continue
    file.write_text(text.replace(before, after))
    run = tests()
    file.write_text(text)
    failed = re.findall(r"^    (\S+)$", run.stdout.split("failures:")[-1], re.M)
    if "could not compile" in run.stderr:
        print(f"{name}: does not compile:\n{run.stderr[-1500:]}")
        missed.append(name)
    elif run.returncode == 0:
        print(f"{name}: NOT noticed")
        missed.append(name)
    else:
        print(f"{name}: noticed by {len(failed)} tests, {', '.join(failed[:3])}", flush=True)
print(f"{len(FAULTS) - len(missed) if not sys.argv[1:] else 'some'} of {len(FAULTS)} faults noticed")
sys.exit(1 if missed else 0)
