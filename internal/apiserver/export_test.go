package apiserver

import (
	"context"
	"net"
)

// Dialing is the client with another way to connect.
func (c *Client) Dialing(dial func(context.Context, string, string) (net.Conn, error)) *Client {
	other := *c
	other.dial = dial
	return &other
}

// What is fuzzed.
var (
	ParseList       = parseList
	ParseKubeconfig = parseKubeconfig
	ParseRefusal    = parseRefusal
	ParsePod        = parsePod
	NewEvents       = newEvents
)

// News is what an event says of a node: the resourceVersion, and the node unless
// it is a bookmark.
func (e watchEvent) News(name string) (string, *Node, error) {
	n, err := e.news(name)
	return n.version, n.node, err
}

func (e *events) Next() (watchEvent, error) { return e.next() }
