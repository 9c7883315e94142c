// Package simcluster simulates an API server and the plugin's pods for tests. It serves what kubectl-accelerator
// requests: lists of pods, commands in pods over websockets, pods' logs, and the user's name.
package simcluster
