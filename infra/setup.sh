#!/usr/bin/env bash
# Makes .venv with every locked package, the two Delta jars, and what the machine lacks: a Java, and a Redis server where there is a wheel
# of it. Safe to run again and to run twice at once; when nothing has changed it does nothing. It needs bash and Python 3.11 to 3.13, and
# writes only inside the repository and the cache folders.
#
# The locks are made again by
#   .venv/bin/uv pip compile --universal --generate-hashes --no-annotate --python-version 3.11 --extra spark --extra gx --extra airflow --extra postgres \
#       --extra sql --extra redis --extra openlineage --extra examples --extra bench --extra pages --group dev -o requirements.lock \
#       pyproject.toml
#   .venv/bin/uv pip compile --universal --generate-hashes --no-annotate -c requirements.lock -o requirements-jre.lock requirements-jre.in
#   .venv/bin/uv pip compile --universal --generate-hashes --no-annotate --python-version 3.11 -c requirements.lock \
#       -o requirements-redis-server.lock requirements-redis-server.in
# and tests/infra/test_platforms.py asks the package index whether each line can be installed by every Python and on every machine promised.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PYTHONPATH="$PWD" PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore
# Trust the certificates that the machine trusts (UV_NATIVE_TLS is the older name), never download a Python, and be patient with slow networks.
export UV_SYSTEM_CERTS=true UV_NATIVE_TLS=true UV_PYTHON_DOWNLOADS=never UV_NO_CONFIG=1 UV_HTTP_TIMEOUT="${UV_HTTP_TIMEOUT:-180}"

fail() {
    printf 'set-up stopped: %s\n' "$@" >&2
    exit 1
}

say() {
    printf 'set-up: %s\n' "$1" >&2
}

# The first Python on PATH that is new enough, and not too new.
find_python() {
    local candidate
    for candidate in python3 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
    fail "Python 3.11, 3.12 or 3.13 is needed, and python3 on PATH is $(python3 -V 2>&1 || true).
Install one of them (Debian, Ubuntu: apt-get install python3.12 python3.12-venv; macOS: brew install python@3.12), put it on PATH and run this again."
}

# Runs a command that fetches packages; when it fails, says whether the network is the reason.
fetch() {
    local log status=0
    log=$(mktemp)
    "$@" 2>"$log" || status=$?
    cat "$log" >&2
    if [ "$status" -ne 0 ]; then
        if grep -qiE 'dns error|failed to lookup|name resolution|connection (refused|reset|error)|error sending request|timed out|unreachable|failed to fetch|max retries|could not connect|NewConnectionError|from versions: none|tls|certificate' "$log"; then
            rm -f "$log"
            fail "the package index cannot be reached (the last lines above say why).
Connect to the network and run this again. Behind a mirror, set PIP_INDEX_URL to it; behind a proxy, set HTTPS_PROXY."
        fi
        rm -f "$log"
        fail "the locked packages could not be installed (the last lines above say why).
Delete .venv and run this again; if it fails again, python -V, the platform and those lines are what a bug report needs."
    fi
    rm -f "$log"
}

# The lines of the lock that pin the named packages, hashes included.
pins() {
    awk -v names=" $* " '/^[a-z0-9]/ { split($1, part, "=="); wanted = index(names, " " part[1] " ") } wanted' requirements.lock
}

# Whether .venv stands where it was made (its scripts hold absolute paths) and its Python still runs.
usable() {
    [ "$(head -n 1 "$stamp" 2>/dev/null)" = "$PWD" ] && .venv/bin/python -c '' >/dev/null 2>&1
}

# Where the environment stands and a digest of what was installed into it.
fingerprint() {
    echo "$PWD"
    { sed '/^\[tool\./,$d' pyproject.toml && cat "${locks[@]}"; } | "$python" -c 'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())'
}

make_environment() {
    rm -rf .venv
    if command -v uv >/dev/null; then
        uv venv -q --python "$(command -v "$python")" .venv || fail "uv could not make .venv with $("$python" -V) (the lines above say why)."
    else
        "$python" -c 'import venv, ensurepip' 2>/dev/null || fail "$("$python" -V) lacks its venv module.
Install it (Debian, Ubuntu: apt-get install python3-venv) or put uv on PATH, and run this again."
        "$python" -m venv .venv || fail "$python -m venv .venv failed (the lines above say why)."
    fi
}

install() {
    # uv reads none of pip's settings: hand it the mirror that pip was told to use.
    local mirror="${PIP_INDEX_URL:-$("$python" -m pip config get global.index-url 2>/dev/null || true)}"
    [ -z "$mirror" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$mirror}"

    if ! usable; then
        make_environment
        # First what the installation itself runs on, pinned too: uv, and the builder of the packages that come as source.
        local first=.venv/first.txt
        pins uv setuptools >"$first"
        if command -v uv >/dev/null; then
            fetch uv pip install -q --require-hashes --python .venv/bin/python -r "$first"
        else
            fetch .venv/bin/python -m pip install -q --require-hashes -r "$first"
        fi
        rm -f "$first"
    fi
    fetch .venv/bin/uv pip sync -q --python .venv/bin/python --require-hashes --no-build-isolation "${locks[@]}"
    fetch .venv/bin/uv pip install -q --python .venv/bin/python --no-deps --no-build-isolation -e .
    echo "$wanted" >"$stamp"
}

stamp=.venv/.setup
exec 9>.venv.lock # descriptor 9 holds the lock until this script closes it
python=.venv/bin/python
usable || python=$(find_python)
"$python" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'
usable || python=$(find_python) # another set-up may have finished, or failed, in the meantime
locks=(requirements.lock)
"$python" -c 'from slackwater.runtime.java import machine_java; raise SystemExit(machine_java() is None)' || locks+=(requirements-jre.lock)
command -v redis-server >/dev/null || locks+=(requirements-redis-server.lock) # its line is for Pythons and machines that have a wheel of it
wanted=$(fingerprint)
if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
    say "installing the locked packages into .venv (about a minute the first time)"
    install
fi
exec 9>&-

.venv/bin/python -m slackwater.runtime
