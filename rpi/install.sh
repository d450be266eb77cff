#!/bin/sh
# Make a Raspberry Pi the robot's side of the lab. Safe to run again; --check only prints what it would do.
set -eu

usage() {
    cat <<'TEXT'
usage: sudo ./install.sh [--pairing FILE] [--image FILE] [options]

  --pairing FILE   what `./lab pair FILE` wrote on the machine that runs the lab
  --image FILE     the bridge's image: a bundle of ./lab, or what `docker save` wrote
                   (without it: the image that is here, else the registry's, else built from this checkout)
  --sha256 SUM     load the image's file only if it has this checksum, which `sha256sum FILE` prints where it was made
  --check          print what would be done, change nothing
  --wait SECONDS   how long to wait for the bridge's status (default 30)
  --uninstall      stop the bridge, remove its settings, image and udev rule; Docker stays

Exit codes: 0 good; 1 the bridge runs but something is missing; 2 wrong use; 3 this machine cannot run it.
TEXT
}

here=$(CDPATH='' cd -P -- "$(dirname -- "$0")" && pwd)
settings=$here/.env
secrets=$here/secrets
bridge_uid=10002
rule_name=99-looplab-robot.rules
# Tests put these files of a Pi below a folder.
host=${LAB_HOST:-}
model_file=$host/proc/device-tree/model
os_file=$host/etc/os-release
rules_dir=$host/etc/udev/rules.d
# The lab's own minimum: one figure for both machines (lab/docker/engine.py).
oldest_compose=2.24.6

check_only=no uninstall=no pairing='' image_file='' sha256='' wait_s=30 problems=0

say() { printf 'looplab: %s\n' "$*"; }

# fail <exit code> <what happened> <what to do>
fail() {
    printf 'install.sh: %s\n  %s\n' "$2" "$3" >&2
    exit "$1"
}

# obstacle <what> <what to do>: --check prints every obstacle, otherwise the first one ends the script.
obstacle() {
    [ "$check_only" = yes ] || fail 3 "$1" "$2"
    printf 'looplab: NOT GOOD: %s\n  %s\n' "$1" "$2"
    problems=$((problems + 1))
}

# would <what>: with --check print it and return true.
would() {
    [ "$check_only" = yes ] || return 1
    say "would $*"
}

read_words() {
    while [ $# -gt 0 ]; do
        case $1 in
            --check) check_only=yes ;;
            --uninstall) uninstall=yes ;;
            --pairing | --image | --sha256 | --wait)
                [ $# -ge 2 ] || fail 2 "$1 needs a value." "./install.sh --help shows how."
                case $1 in
                    --pairing) pairing=$2 ;;
                    --image) image_file=$2 ;;
                    --sha256) sha256=$2 ;;
                    --wait) wait_s=$2 ;;
                esac
                shift
                ;;
            -h | --help)
                usage
                exit 0
                ;;
            *) fail 2 "There is no option $1." "./install.sh --help shows them." ;;
        esac
        shift
    done
    case $wait_s in
        '' | *[!0-9]*) fail 2 "--wait $wait_s: expected whole seconds." "For example --wait 30." ;;
    esac
    for file in "$pairing" "$image_file"; do
        [ -z "$file" ] || [ -r "$file" ] || fail 2 "There is no readable file $file." "Copy it to the Pi first."
    done
}

need_root() {
    [ "$check_only" = yes ] || [ "$(id -u)" = 0 ] || fail 2 "This needs root." "sudo $0 …"
}

# A value of /etc/os-release, without its quotes.
os_value() { sed -n "s/^$1=//p" "$os_file" 2>/dev/null | tr -d '"' | head -n 1; }

look_at_machine() {
    model=''
    [ ! -r "$model_file" ] || model=$(tr -d '\0' <"$model_file")
    architecture=$(dpkg --print-architecture 2>/dev/null || true)
    system=$(os_value PRETTY_NAME)
    say "${model:-not a Raspberry Pi (any Debian serves)}, ${architecture:-unknown architecture}, ${system:-unknown system}"
    case $(uname -m) in
        armv6l) obstacle "This processor (ARMv6: Pi 1, Zero, Zero W) cannot run Debian's armhf containers." \
            "Take a Pi 2 or later, or a Zero 2 W." ;;
    esac
    case $architecture in
        arm64 | armhf | amd64) ;;
        *) obstacle "There is no image of the bridge for ${architecture:-this architecture}." \
            "Flash Raspberry Pi OS (64-bit), or the 32-bit one." ;;
    esac
    case " $(os_value ID) $(os_value ID_LIKE) " in
        *" debian "* | *" raspbian "*) ;;
        *) obstacle "This is no Debian." "Flash Raspberry Pi OS." ;;
    esac
}

compose_version() { docker compose version --short 2>/dev/null | sed 's/^v//'; }

# at_least <version> <oldest>, by Debian's own order of versions
at_least() { [ -n "$1" ] && dpkg --compare-versions "$1" ge "$2"; }

have_engine() {
    version=$(compose_version || true)
    if at_least "$version" "$oldest_compose"; then
        say "Docker is here, with Compose $version"
    else
        install_engine
    fi
    if [ "$check_only" = no ] && ! docker version >/dev/null 2>&1; then
        fail 3 "Docker's engine does not answer." "systemctl start docker; journalctl -u docker shows the reason."
    fi
}

install_engine() {
    release=$(os_value VERSION_ID)
    # Debian 12's docker-compose is 1.29, which cannot read the file.
    if ! at_least "$release" 13; then
        obstacle "Compose $oldest_compose is needed; the packages of ${system:-this system} are older." \
            "Flash Raspberry Pi OS based on Debian 13 (trixie), or install Docker's own packages."
        return
    fi
    would "install docker.io, docker-cli and docker-compose by apt-get" && return
    say "installing Docker and Compose (a minute or two)"
    export DEBIAN_FRONTEND=noninteractive
    log=$(mktemp)
    if ! { apt-get -qq update && apt-get -qq install -y --no-install-recommends \
        docker.io docker-cli docker-compose; } >"$log" 2>&1; then
        tail -n 5 "$log" >&2
        fail 3 "apt-get could not install Docker; see $log." "Is the Pi on the Internet? Then run this again."
    fi
    rm -f "$log"
    say "installed Docker, with Compose $(compose_version)"
}

# Reload the rules and apply them to existing ports; false if no udev runs.
udev_reloads() {
    udevadm control --reload >/dev/null 2>&1 && udevadm trigger --subsystem-match=tty >/dev/null 2>&1
}

have_rule() {
    if cmp -s "$here/$rule_name" "$rules_dir/$rule_name"; then
        say "the robot's name /dev/looplab-robot is set up"
        return
    fi
    would "add the udev rule $rules_dir/$rule_name" && return
    mkdir -p "$rules_dir"
    install -m 0644 "$here/$rule_name" "$rules_dir/$rule_name"
    if udev_reloads; then
        say "set up the robot's name /dev/looplab-robot"
    else
        say "set up the robot's name /dev/looplab-robot; no udev runs here, so it applies after the next boot"
    fi
}

# value_in <name> <env file>: the last one counts, as for Compose.
value_in() { sed -n "s/^$1=//p" "$2" 2>/dev/null | tr -d '\r' | tail -n 1; }

# A setting as it is, or, with --check, as the pairing would make it.
setting() {
    if [ "$check_only" = yes ] && [ -n "$pairing" ] && grep -q "^$1=" "$pairing"; then
        value_in "$1" "$pairing"
    else
        value_in "$1" "$settings"
    fi
}

take_pairing() {
    if [ -n "$pairing" ]; then
        case $(value_in BROKER_HOST "$pairing") in
            '' | *[!A-Za-z0-9_.:-]*) fail 2 "$pairing is no pairing file: it names no BROKER_HOST." \
                "Make it by ./lab pair on the machine that runs the lab." ;;
        esac
        would "take the pairing of $pairing into $settings and $secrets" && return
        if ! { keep_secrets && keep_settings; }; then
            rm -f "$secrets/pairing.env.new" "$settings.new"
            fail 3 "The pairing could not be written to $here." "Is there room on the card? df -h $here"
        fi
        say "paired with $(setting BROKER_HOST):$(setting BROKER_PORT)"
    elif [ -n "$(setting BROKER_HOST)" ]; then
        say "paired with $(setting BROKER_HOST):$(setting BROKER_PORT)"
    else
        obstacle "This Pi is not paired." "./lab pair FILE on the machine that runs the lab; then --pairing FILE here."
    fi
}

# The whole file, for the bridge alone: neither Compose nor a user of the engine sees a password.
keep_secrets() {
    mkdir -p "$secrets" && chmod 0711 "$secrets" &&
        (umask 077 && tr -d '\r' <"$pairing" >"$secrets/pairing.env.new") &&
        chown "$bridge_uid:$bridge_uid" "$secrets/pairing.env.new" &&
        chmod 0400 "$secrets/pairing.env.new" &&
        # In one moment: nothing half written is left where the power fails.
        mv "$secrets/pairing.env.new" "$secrets/pairing.env"
}

# What is no secret goes into .env, above what was set there; a broker without a password is plain.
keep_settings() {
    paired_names='BROKER_HOST|BROKER_PORT|BROKER_PAIRING|FIDELITY|TCP_NODELAY|ROBOT_FRAMING|PAIRING|SERIAL_LOW_LATENCY|QOS_LEGS|MQTT_VERSION|TOPIC_ALIAS|RECEIVER|LAB_REGISTRY|LAB_TAG'
    paired_names="$paired_names|ROBOT_DEVICE"
    fresh=$(tr -d '\r' <"$pairing" | grep -E "^($paired_names)=" || true)
    seen_inside=''
    if grep -q '^BROKER_PASSWORD=' "$pairing"; then seen_inside=/run/looplab/pairing.env; fi
    fresh="$fresh
BROKER_PAIRING=$seen_inside"
    names=$(printf '%s\n' "$fresh" | sed -n 's/^\([A-Z_]*\)=.*/\1/p' | tr '\n' '|')
    {
        grep -Ev "^(${names%|})=" "$settings" 2>/dev/null || true
        printf '%s\n' "$fresh"
    } >"$settings.new" && mv "$settings.new" "$settings"
}

# As compose.yaml names it.
image() {
    tag=$(setting LAB_TAG)
    registry=$(setting LAB_REGISTRY)
    printf '%slooplab/bridge:%s\n' "${registry:-localhost/}" "${tag:-0.1.0}"
}

image_is_here() { docker image inspect "$(image)" >/dev/null 2>&1; }

have_image() {
    get_image
    [ "$check_only" = no ] || return 0
    case $(docker image inspect --format '{{.Architecture}}' "$(image)"):$architecture in
        arm64:arm64 | arm:armhf | amd64:amd64) ;;
        *) fail 3 "The image $(image) is for another processor than $architecture." \
            "docker image rm $(image), and take one that was made for $architecture: --image FILE." ;;
    esac
}

get_image() {
    registry=$(setting LAB_REGISTRY)
    if [ -n "$image_file" ]; then
        load_image
    elif [ "$problems" = 0 ] && command -v docker >/dev/null 2>&1 && image_is_here; then
        say "the image $(image) is here"
    elif would "${registry:+get $(image) from the registry, or }build $(image) from this checkout"; then
        return
    # Where none is named the engine would ask its default one, for a stranger's.
    elif [ -n "$registry" ] && docker pull -q "$(image)" >/dev/null 2>&1; then
        say "got $(image) from the registry"
    elif [ -r "$here/../images/base/Dockerfile" ]; then
        say "building $(image) (some minutes)"
        in_compose build bridge || fail 3 "The image could not be built." "The lines above show the reason. Or use --image."
    else
        fail 3 "The image $(image) was not found: no registry has it, and there are no sources here." \
            "On the machine that runs the lab make it for $architecture, bring it here, and use --image FILE."
    fi
}

# The names that the file's images would get: root's engine takes any name, those of other projects' images included.
image_names() {
    listed=$(tar -xOf "$image_file" manifest.json | tr -d '[:space:]')
    # Engines with containerd's store read index.json.
    indexed=$(tar -xOf "$image_file" index.json 2>/dev/null | tr -d '[:space:]')
    # In JSON an escape may stand for any letter.
    case $listed$indexed in *\\*) echo 'a-backslash' && return ;; esac
    printf '%s' "$listed" | grep -io '"repotags":\[[^]]*\]' | grep -o '"[^"]*"' | tr -d '"' | grep -ivx repotags || true
    printf '%s' "$indexed" | grep -io '"io\.containerd\.image\.name":"[^"]*"' | cut -d '"' -f 4 |
        sed 's|^docker\.io/||; s|^library/||'
}

# The lab's own, and those that a bundle brings from .env.
is_expected() {
    case $1 in
        looplab/*/* | */looplab/*/*) return 1 ;;
        looplab/* | */looplab/*) return 0 ;;
        *) grep -E '^[A-Z]+_IMAGE=' "$here/../.env" 2>/dev/null | cut -d = -f 2 | cut -d @ -f 1 | grep -Fqx "$1" ;;
    esac
}

# What is damaged must not reach the engine: reading to the end compares the checksum of a bundle.
load_image() {
    if [ -n "$sha256" ] && ! printf '%s  %s\n' "$sha256" "$image_file" | sha256sum --check --status 2>/dev/null; then
        fail 3 "$image_file is another file: its SHA-256 is not $sha256." "Copy it, and the sum, from where it was made."
    fi
    if ! members=$(tar -tf "$image_file" 2>/dev/null) && [ -n "$members" ]; then
        fail 3 "$image_file is damaged: it cannot be read to its end." "Copy it again."
    fi
    [ "$(printf '%s\n' "$members" | grep -E '(^|/)(manifest|index)\.json$' | grep -vx index.json)" = manifest.json ] ||
        fail 2 "$image_file is neither a bundle of the lab nor a saved image." "./lab bundle FILE makes one."
    for name in $(image_names); do
        is_expected "$name" ||
            fail 2 "$image_file brings $name, which is no image of the lab." "docker save $(image) makes a file of one image."
    done
    would "load the image from $image_file" && return
    docker load -q -i "$image_file" >/dev/null || fail 3 "Docker could not load $image_file." "Is there room? df -h"
    image_is_here || fail 3 "$image_file holds no $(image)." "Make it with the version of the lab that runs the runs."
    say "loaded $(image) from $image_file"
}

in_compose() { docker compose --ansi never --progress quiet --project-directory "$here" -f "$here/compose.yaml" "$@"; }

# The newest state in the bridge's log of `robot` or `broker`; a counted fault is no state.
# Some versions of Compose write a control sequence before each line of a log; the engine does not.
bridge_says() {
    docker logs "$(in_compose ps --all --quiet bridge)" 2>/dev/null | grep "^bridge: $1: " | grep -v 'so far)$' | tail -n 1
}

# A broker lives as long as a run: a refused connection shows that its machine is on.
bridge_is_ready() {
    case "$(bridge_says robot) $(bridge_says broker)" in
        *' online, '*' connected to '* | *' online, '*'Connection refused'*) ;;
        *) return 1 ;;
    esac
}

start_bridge() {
    would "start the bridge, and wait up to $wait_s s for robot and broker" && return
    in_compose up --detach --no-build --pull never || fail 3 "The bridge did not start." "The lines above show the reason."
    say "the bridge runs, and will after each boot"
    until bridge_is_ready || [ "$wait_s" -eq 0 ]; do
        wait_s=$((wait_s - 1))
        sleep 1
    done
    printf '%s\n' "$(bridge_says robot)" "$(bridge_says broker)"
    bridge_is_ready || exit 1
}

remove_all() {
    would "stop the bridge, remove its image, $settings, $secrets and $rules_dir/$rule_name" && return
    if command -v docker >/dev/null 2>&1; then
        BROKER_HOST=none in_compose --profile '*' down --volumes --rmi all || true
    fi
    rm -f "$rules_dir/$rule_name" "$settings" "$secrets/pairing.env"
    rmdir "$secrets" 2>/dev/null || true
    # Otherwise the name would stay until the robot is plugged in again.
    udev_reloads || true
    say "removed; Docker itself stays (apt-get remove docker.io docker-compose)"
}

read_words "$@"
need_root
if [ "$uninstall" = yes ]; then
    remove_all
    exit 0
fi
look_at_machine
have_engine
have_rule
take_pairing
have_image
start_bridge
if [ "$check_only" = yes ]; then
    [ "$problems" = 0 ] || fail 3 "$problems obstacle(s) found." "They are named above."
    say "all good: without --check this would be done"
fi
