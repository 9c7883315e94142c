// Package simcluster simulates an API server with pods of the plugin, for tests. It serves what kubectl-accelerator
// requests: lists of pods, commands in pods over websockets, the logs of pods, and the name of the user.
package simcluster
