package transfer

import (
	"context"
	"net"
)

// DialWith makes the client dial with this function instead of the network.
func (c *Client) DialWith(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	c.dial = dial
}

// SameDomain reports whether a host may get the credentials for a registry.
func SameDomain(host, registry string) bool { return sameDomain(host, registry) }
