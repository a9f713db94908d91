#!/usr/bin/env bash
# Prints the path of an S3 server for tests, Versity's gateway (Apache 2.0). Go builds it the first time, in two to five minutes, into the
# cache. It has conditional puts as S3 has, and keeps objects as plain files. Safe to run twice at once. It needs bash, flock and Go 1.25.
set -euo pipefail

module=github.com/versity/versitygw/cmd/versitygw
version=v1.8.0

folder=${SLACKWATER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/slackwater}/s3-server-$version
binary=$folder/versitygw
if [ ! -x "$binary" ]; then
    command -v go >/dev/null || {
        echo "there is no S3 server here: it is built with Go 1.25 or newer, and there is no go on PATH" >&2
        exit 1
    }
    mkdir -p "$folder"
    exec 9>"$folder/lock"
    flock 9
    if [ ! -x "$binary" ]; then
        rm -rf "$folder/bin"
        GOBIN="$folder/bin" CGO_ENABLED=0 go install -ldflags="-s -w" "$module@$version" >"$folder/build.log" 2>&1 || {
            echo "there is no S3 server here: Go could not build it, see $folder/build.log" >&2
            exit 1
        }
        mv "$folder/bin/versitygw" "$binary"
    fi
    exec 9>&-
fi
echo "$binary"
