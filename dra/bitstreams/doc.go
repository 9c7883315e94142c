// Package bitstreams keeps track of the bitstreams in a node's store, which the driver publishes in its slices.
package bitstreams
