// Package bitstreams keeps track of the bitstreams in a node's store, so that the driver can publish them in its
// slices.
package bitstreams
