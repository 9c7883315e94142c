// Package simcluster is an API server with pods of the plugin, for tests. It serves what kubectl-accelerator asks for: lists of
// pods, commands in pods over websockets, their logs, and the name of the user.
package simcluster
