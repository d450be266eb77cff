#!/bin/sh
# Build Telegraf with its MQTT consumer and its PostgreSQL output alone, for twin_storage.py: bench/telegraf.sh FOLDER
# Needs Go 1.25.5 or later; some 2 minutes, 34 MB. Of the module proxy: version and checksum as pinned here.
set -eu
module=github.com/influxdata/telegraf version=v1.37.2 sum=h1:mYr0I/suEw9+UM4KrCFuYuzJuq/e99cINniIwqO6ykw=
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "$folder"
export GOPATH="$folder/go" GOFLAGS=-buildvcs=false GOTOOLCHAIN=local
go mod download -json "$module@$version" >module.json
grep -qF "\"Sum\": \"$sum\"" module.json || { echo "telegraf.sh: the checksum of $module $version is not $sum" >&2; exit 1; }
[ -d source ] || cp -r "$GOPATH/pkg/mod/$module@$version" source
chmod -R u+w source
cd source
go build -trimpath -tags custom,inputs.mqtt_consumer,outputs.postgresql,parsers.csv -o "$folder/telegraf" ./cmd/telegraf
"$folder/telegraf" --version
