// Package bitstreams follows the names of the bitstreams in the store of a node, which the driver publishes in its slices.
package bitstreams
