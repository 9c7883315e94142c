package main

import (
	"bytes"
	"testing"

	"b-com.com/accelerator-device-plugin/sim/simkubelet"
	"b-com.com/accelerator-device-plugin/sim/simnode"
)

const testResource = "b-com.com/accelerator"

var (
	cardA = simnode.Card{Address: "0000:3b:00.0", Ports: 2, AFUID: "d8424dc4a4a3c413f89e433683f9040b", InterfaceID: "69528db6eb31577a8c3668f9faa081f6"}
	cardB = simnode.Card{Address: "0000:5e:00.0", Ports: 1, NUMANode: 1, AFUID: "f7df405cbd7acf7222f144b0b93acd18", InterfaceID: "9346116da52d5ca8b06aa9a389ef7c8d"}
)

type health map[string]bool // by device ID

// told returns the devices' health in a list that was sent to the kubelet.
func told(l simkubelet.List) health {
	h := make(health, len(l.Devices))
	for _, d := range l.Devices {
		h[d.ID] = d.Healthy
	}
	return h
}

// call runs the program in this process.
func call(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return out.String(), errs.String(), code
}
