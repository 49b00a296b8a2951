"""lm-evaluation-harness against a running server: its `local-completions` model on a small task of its own.

    python lm_eval_client.py BASE_URL          e.g. http://127.0.0.1:8000 (without /v1); needs the package lm-eval[api]

Runs a task of choices and one of generation with the server's tokenizer, and compares each log-likelihood with the sum of
the log-probabilities that the server gives for the same token ids. Prints `N passed, 0 failed`; exits 1 at the first failure.
"""
import glob
import json
import os
import subprocess
import sys
import tempfile
import urllib.request

base = sys.argv[1]
passed = 0
QUESTIONS = [
    ("The capital of France is", [" Paris", " London", " a potato"], 0),
    ("Two plus two makes", [" four", " seven", " blue"], 0),
    ("The opposite of hot is", [" fish", " cold", " loud"], 1),
    ("Water is made of hydrogen and", [" oxygen", " iron", " bread"], 0),
    ("The first month of the year is", [" January", " October", " Sunday"], 0),
]
COMMON = """dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
doc_to_text: "{{{{question}}}}"
target_delimiter: ""
"""
CHOICE = """task: ucuz_choice
output_type: multiple_choice
doc_to_choice: "{{choices}}"
doc_to_target: "{{answer}}"
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
"""
TEXT = """task: ucuz_text
output_type: generate_until
doc_to_target: "{{choices[answer]}}"
generation_kwargs: {until: ["\\n", "."], max_gen_toks: 12, do_sample: false, temperature: 0}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
"""


def check(name, holds, detail=""):
    global passed
    if not holds:
        sys.exit(f"FAILED {name}: {detail}")
    passed += 1
    print(f"ok {name}")


def post(path, body):
    request = urllib.request.Request(base + path, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


def loglikelihood(context, continuation):
    """Sum over the continuation's tokens, from the scores of the prompt."""
    tokens = lambda text: post("/tokenize", {"prompt": text})["tokens"]
    ids, known = tokens(context + continuation), len(tokens(context))
    body = {"prompt": ids, "max_tokens": 0, "temperature": 0, "prompt_logprobs": 0}
    scores = post("/v1/completions", body)["choices"][0]["prompt_logprobs"]
    return sum(score["logprob"] for score in scores[known:])


folder = tempfile.mkdtemp()
data = os.path.join(folder, "data.jsonl")
with open(data, "w") as out:
    for question, choices, answer in QUESTIONS:
        out.write(json.dumps({"question": question, "choices": choices, "answer": answer}) + "\n")
for name, task in (("choice", CHOICE), ("text", TEXT)):
    with open(os.path.join(folder, name + ".yaml"), "w") as out:
        out.write(task + COMMON.format(data=data))
with urllib.request.urlopen(base + "/v1/models") as answer:
    model = json.load(answer)["data"][0]["id"]
arguments = f"model={model},base_url={base}/v1/completions,tokenizer_backend=remote,num_concurrent=2,max_retries=1"
command = ["-m", "lm_eval", "--model", "local-completions", "--model_args", arguments, "--tasks", "ucuz_choice,ucuz_text"]
command += ["--include_path", folder, "--output_path", os.path.join(folder, "out"), "--log_samples"]
run = subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=folder)
check("the harness runs both tasks", run.returncode == 0, run.stderr[-2000:])


def samples(task):
    [path] = glob.glob(os.path.join(folder, "out", "*", f"samples_{task}_*.jsonl"))
    return [json.loads(line) for line in open(path)]


worst, compared, right = 0.0, 0, 0
for sample in samples("ucuz_choice"):
    document = sample["doc"]
    given = [float(response[0][0]) for response in sample["resps"]]
    for choice, value in zip(document["choices"], given, strict=True):
        worst = max(worst, abs(value - loglikelihood(document["question"], choice)))
        compared += 1
    right += max(range(len(given)), key=given.__getitem__) == document["answer"]
check(f"{compared} log-likelihoods are the server's own scores", worst <= 1e-4 and compared == 15, worst)
print(f"   farthest apart {worst:.2e}; {right} of {len(QUESTIONS)} right")
check("the model knows most answers", right >= 4, right)
texts = [sample["resps"][0][0] for sample in samples("ucuz_text")]
check("texts end before their stop strings", len(texts) == 5 and all("\n" not in text and "." not in text for text in texts), texts)
print(f"{passed} passed, 0 failed")
