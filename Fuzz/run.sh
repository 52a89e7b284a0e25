#!/bin/bash
# Fuzz/run.sh TARGET [SECONDS] [libFuzzer option...]: builds a fuzz target and runs it.
#   TARGET  xml (XMLFramer) or json (the JSON scanner and the codec)
#   SECONDS how long to run; 600 by default. 0 only builds.
# The corpus grows in .build-fuzz/corpus-TARGET; a finding is written to .build-fuzz/ and ends the run with an error.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:?"usage: Fuzz/run.sh xml|json [SECONDS]"}
seconds=${2:-600}
shift $(($# < 2 ? $# : 2))

flags=() sources=()
case $target in
xml)
    # Without the channel handler, which needs SwiftNIO.
    for path in Sources/XMLWire/*.swift; do
        [ "$path" = Sources/XMLWire/XMLStreamHandler.swift ] || sources+=("$path")
    done
    sources+=(Fuzz/XMLFramerFuzz.swift)
    mapfile -t -O 0 include < <(pkg-config --cflags-only-I libxml-2.0 | tr ' ' '\n' | sed '/^$/d')
    flags+=(-I Sources/CLibXML2 -I Sources/CBytes -lxml2)
    for path in "${include[@]}"; do flags+=(-Xcc "$path"); done
    ;;
json)
    # Several modules are compiled as one here, so the imports between them are removed.
    rm -rf .build-fuzz/sources-json
    mkdir -p .build-fuzz/sources-json
    for path in $(find Sources/Vocabulary Sources/Digests Sources/XMPP -name '*.swift') \
        Sources/XMLWire/{Stanza,SkippedStanza,XMLStreamError,XMLStreamPosition}.swift Fuzz/JSONScannerFuzz.swift; do
        sed -E '/^(package )?import (Vocabulary|UpstreamKit|XMLWire|Digests)$/d' "$path" >".build-fuzz/sources-json/${path##*/}"
    done
    mapfile -t sources < <(ls .build-fuzz/sources-json/*.swift)
    flags+=(-I Sources/COpenSSL -I Sources/CBytes -I Sources/CGlibc)
    ;;
*)
    echo "Fuzz/run.sh: no target '$target': xml or json" >&2
    exit 64
    ;;
esac

build=.build-fuzz
mkdir -p "$build/corpus-$target"
swiftc -O -parse-as-library -swift-version 6 -package-name upstream_worker -module-name "Fuzz_$target" \
    -enable-upcoming-feature ExistentialAny -enable-upcoming-feature InternalImportsByDefault \
    -sanitize=fuzzer,address "${flags[@]}" "${sources[@]}" -o "$build/$target"
[ "$seconds" = 0 ] && exit 0

options=(-max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=4096 -print_final_stats=1)
[ -f "Fuzz/$target.dict" ] && options+=(-dict="Fuzz/$target.dict")
# The seeds have their own folder, since libFuzzer writes only to the first one given.
seeds=()
[ -d "Fuzz/seeds-$target" ] && seeds+=("Fuzz/seeds-$target")
# Leaks at exit are the language runtime's; its backtracer hangs under the address sanitizer.
ASAN_OPTIONS=detect_leaks=0 SWIFT_BACKTRACE=enable=no exec "$build/$target" "${options[@]}" -artifact_prefix="$build/$target-" "$@" \
    "$build/corpus-$target" "${seeds[@]}"
