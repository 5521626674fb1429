#!/bin/sh
# HAProxy, and a reload whenever its certificate has changed: its old processes finish what they have.
# SIGUSR1 and SIGTERM: it takes no new connections, and ends with the last one.
directory=${1:-/etc/haproxy}
certificate=${2:-/etc/haproxy-tls/tls.crt}
every_s=${3:-30}
stopping=
haproxy -W -db -f "$directory/haproxy.cfg" &
haproxy=$!
trap 'stopping=1' USR1 TERM
seen=$(cksum <"$certificate")
while [ -z "$stopping" ] && kill -0 "$haproxy" 2>/dev/null; do
  sleep "$every_s" &
  pause=$!
  wait "$pause"
  kill "$pause" 2>/dev/null
  now=$(cksum <"$certificate")
  if [ "$now" != "$seen" ]; then
    seen=$now
    kill -USR2 "$haproxy"
  fi
done
# Told again until it has ended: in the middle of a reload it hears nothing.
while kill -0 "$haproxy" 2>/dev/null; do
  kill -USR1 "$haproxy"
  sleep 1 &
  wait "$!"
done
wait "$haproxy"
