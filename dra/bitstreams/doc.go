// Package bitstreams follows the names of the bitstreams in a node's store. The driver publishes them in its slices.
package bitstreams
