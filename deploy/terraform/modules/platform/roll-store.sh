#!/bin/sh
# Restarts the store nodes of an installation one after the other: each hands over its leaders, and is
# well again before the next one goes. To be run after everything that changes their pods; those that
# are as they should be stay. It stops at the first that does not come back; run it again then.
#
#   roll-store.sh NAMESPACE [NAME]
set -eu
namespace=$1
name=${2:-packetboat}
patience=${PATIENCE:-30m}
selector="app.kubernetes.io/instance=$name,app.kubernetes.io/component=store"
k() { kubectl --namespace "$namespace" "$@"; }
all_well() {
  k wait --for=condition=Ready pod --selector "$selector" --timeout="$patience"
  # From a node that is there: every node has caught up, and every group is led.
  k exec "$(k get pods --selector "$selector" --output name | head -n 1)" -- packetboat store "$1"
}

for set in $(k get statefulsets --selector "$selector" --output name); do
  pod=pod/${set#*/}-0
  wanted=$(k get "$set" --output 'jsonpath={.status.updateRevision}')
  present=$(k get "$pod" --output 'jsonpath={.metadata.labels.controller-revision-hash}')
  if [ "$wanted" = "$present" ]; then
    echo "$pod is as it should be"
    continue
  fi
  all_well wait
  k delete "$pod" --wait=true
  until k get "$pod" >/dev/null 2>&1; do sleep 1; done
done
all_well wait
all_well balance
