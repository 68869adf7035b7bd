#!/bin/sh
# The main job with this machine's own hardware, onto a Node kept in a file; onto a real one if NODE_NAME names it.
# CAPACITYD: how to call it. NODE_FILE: the file. KUBECONFIG_FILE: for a real Node, if not the kubelet's own.
set -eu
cd "$(dirname "$0")/../.."
unset KUBECONFIG

step() {
    printf '\n$ capacityd %s\n' "$*"
    status=0
    $CAPACITYD "$@" || status=$?
    [ "$status" = 0 ] || [ "$status" = 4 ] # 4: done, but something is unknown or refused
}

config=docs/tour/here.toml
step devices
step probe --explain --config $config
if [ -n "${NODE_NAME:-}" ]; then
    set -- --config $config --node-name "$NODE_NAME" ${KUBECONFIG_FILE:+--kubeconfig "$KUBECONFIG_FILE"}
    step plan "$@"
    step apply "$@"
else
    mkdir -p "$(dirname "$NODE_FILE")"
    cp docs/tour/node.json "$NODE_FILE"
    step plan --config $config --node-file "$NODE_FILE"
    step apply --config $config --node-file "$NODE_FILE"
    printf '\nThe capacity of the Node in %s:\n' "$NODE_FILE"
    sed -n '/"capacity"/,/}/p' "$NODE_FILE"
fi
