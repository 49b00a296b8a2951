#!/bin/sh
# Stands in for `python3 -m pip download ... -d FOLDER REQUIREMENT`. Run through a symbolic link, it finds
# beside the link: `calls` (appended), `stderr` (if there: printed, exit 1), `wheels/` (copied to FOLDER).
here=$(dirname "$0")
echo "$*" >> "$here/calls"
if [ -f "$here/stderr" ]; then
    cat "$here/stderr" >&2
    exit 1
fi
while [ $# -gt 0 ]; do
    if [ "$1" = -d ]; then folder=$2; fi
    shift
done
for wheel in "$here"/wheels/*.whl; do
    if [ -f "$wheel" ]; then cp "$wheel" "$folder/"; fi
done
