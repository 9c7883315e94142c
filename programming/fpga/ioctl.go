package fpga

type requests struct{}

var dflRequests, opaeRequests requests
