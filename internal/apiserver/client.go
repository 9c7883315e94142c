package apiserver

import (
	"context"
	"net"

	"go.uber.org/zap"
)

// Client knows how to reach the API server. Make it with [Open].
type Client struct {
	access access
	agent  string
	log    *zap.Logger
	failed func()
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

// Address is the URL of the API server.
func (c *Client) Address() string { return c.access.server.String() }
