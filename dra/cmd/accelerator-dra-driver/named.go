package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	stdslices "slices"
	"strings"

	"b-com.com/accelerator-device-plugin/internal/draname"
	"b-com.com/accelerator-device-plugin/server/podresources"
)

// named implements [claims.Config.Named]. A kubelet that has just started lists pods one after the other, so an answer
// without the pod of this driver may lack others, too.
func (a *api) named(ctx context.Context) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, namesWithin)
	defer cancel()
	justStarted := podresources.JustStarted(a.cfg.PodResourcesSocket)
	answer, err := podresources.List(ctx, a.cfg.PodResourcesSocket)
	if err != nil {
		return nil, err
	}
	if justStarted {
		return nil, errors.New("the kubelet has just started, so its answer may lack pods")
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	if a.settings.podUID != "" && !stdslices.ContainsFunc(answer.Pods, func(pod string) bool { return isPod(pod, host) }) {
		return nil, fmt.Errorf("the kubelet does not list the pod of this driver (%s), so its answer may lack other pods", host)
	}
	names := map[string]bool{}
	for key := range answer.Holders {
		if key.Resource == draname.Driver {
			names[key.ID] = true
		}
	}
	return names, nil
}

// isPod reports whether a pod has this host name. The kubelet cuts host names after 63 characters, and then removes dots
// and dashes from the end.
func isPod(pod, host string) bool {
	const longest = 63
	if len(pod) > longest {
		pod = strings.TrimRight(pod[:longest], "-.")
	}
	return pod == host
}
