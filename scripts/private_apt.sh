# Debian packages, unpacked into a folder without root and without a change to the system; sourced by bash scripts, which
# define `say`, $work (a temporary folder of theirs) and $mirror (from find_mirror). They unpack into $work/tree.
#
# The packages come from the mirror that this system's own apt uses, by a private apt configuration: lists, cache and
# status lie in $work, the signatures are checked with the system's Debian keyring, and nothing of the system is read or
# written otherwise.

keyring=/usr/share/keyrings/debian-archive-keyring.gpg
architecture=$(dpkg --print-architecture 2>/dev/null || true) # of the packages; a script may set another

# The mirror of this system's Debian, from what its own `apt-get update` would fetch.
find_mirror() {
    local codename
    codename=$(. /etc/os-release && [ "${ID:-}" = debian ] && echo "${VERSION_CODENAME:-}") || return 1
    [ -n "$codename" ] || return 1
    apt-get update --print-uris 2>/dev/null | sed -n "s#^'\(.*\)/dists/$codename/InRelease' .*#\1#p" | sed -n 1p | grep .
}

# private_apt COMMAND ARGS...: apt that knows only $work
private_apt() {
    "$@" -o Dir::State="$work/state" -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" \
        -o Dir::Etc::sourcelist="$work/suites.sources" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null -o APT::Sandbox::User= \
        -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
        -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" \
        -o APT::Install-Recommends=false -o APT::Get::AllowUnauthenticated=false
}

# read_lists SUITE...: begins a new private apt with these suites
read_lists() {
    rm -rf "$work"
    mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial" "$work/packages"
    : >"$work/status"
    printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n' "$mirror" "$*" "$keyring" \
        >"$work/suites.sources"
    if ! private_apt apt-get -q update -o APT::Update::Error-Mode=any >"$work/log" 2>&1; then
        cat "$work/log" >&2
        say "cannot read $* from this system's mirror $mirror; where a key is missing, update debian-archive-keyring"
        exit 1
    fi
}

# unpack UNWANTED PACKAGE...: the packages and all they depend on but those that the pattern names, into $work/tree
unpack() {
    local unwanted=$1 package
    shift
    # The simulation on an empty system lists the whole closure: "Inst NAME (VERSION SUITE [ARCHITECTURE])".
    private_apt apt-get -s install "$@" | sed -n 's/^Inst \([^ ]*\) (\([^ ]*\) .*/\1=\2/p' |
        grep -vE "^($unwanted)(:[a-z0-9]+)?=" | sort >"$work/wanted"
    (cd "$work/packages" && mapfile -t wanted <"$work/wanted" && private_apt apt-get -q download "${wanted[@]}") \
        >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
    for package in "$work"/packages/*.deb; do
        dpkg-deb -x "$package" "$work/tree"
    done
    rm -rf "$work"/tree/usr/share/{doc,man,info,locale,lintian,bug,X11,vulkan/registry} "$work/tree/etc"
}
