#!/bin/sh
# Restarts the store nodes of an installation one after the other: each hands over its leaders, and is
# well again before the next one goes. To be run after everything that changes their pods; those that
# are as they should be stay. Stops at the first that does not come back: run it again then.
#
#   roll-store.sh NAMESPACE [NAME]
set -eu
namespace=$1
name=${2:-packetboat}
patience=${PATIENCE:-30m}
selector="app.kubernetes.io/instance=$name,app.kubernetes.io/component=store"
k() { kubectl --namespace "$namespace" "$@"; }
any() { k get pods --selector "$selector" --field-selector status.phase=Running --output name | head -n 1; }

k wait --for=condition=Ready pod --selector "$selector" --timeout="$patience"
for set in $(k get statefulsets --selector "$selector" --output name); do
  wanted=$(k get "$set" --output 'jsonpath={.status.updateRevision}')
  pod=pod/${set#*/}-0
  present=$(k get "$pod" --output 'jsonpath={.metadata.labels.controller-revision-hash}')
  if [ "$wanted" = "$present" ]; then
    echo "$pod is as it should be"
    continue
  fi
  k exec "$pod" -- packetboat store wait
  k delete "$pod" --wait=true
  k rollout status "$set" --timeout="$patience"
  k wait --for=condition=Ready "$pod" --timeout="$patience"
done
k exec "$(any)" -- packetboat store wait
k exec "$(any)" -- packetboat store balance
