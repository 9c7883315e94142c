package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	resourceapi "k8s.io/api/resource/v1"

	"b-com.com/accelerator-device-plugin/cdi"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/dra/claims"
	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/offer/draname"
	"b-com.com/accelerator-device-plugin/programming"
)

// settings holds the settings that only this driver has. They can't be set in the YAML file.
type settings struct {
	pluginDir, registryDir string
	podUID                 string
	taintEffect            string
	finishClaims           bool
	deviceMetadata         bool
	claimStatus            bool
	publishBitstreams      bool
}

// withoutEffect lists the device plugin's settings that don't have any effect here. The driver accepts them so that
// both APIs can use the same settings file.
var withoutEffect = []string{
	"resource-name", "resource-namespace", "accel-nbunits", "allocation-policy", "kubelet-dir", "node-annotation",
}

// usages holds help texts that differ from the device plugin's.
var usages = map[string]string{
	"cdi-dir":    "directory for the CDI spec, through which containers get their device nodes; if empty, /var/run/cdi is used",
	"kubeconfig": "kubeconfig file for the API server; if empty, the pod's service account is used",
	"mode":       "devices: single or af (ports), region (cards), regiondevel (like region, plus the FME's device node)",
	"node-name":  "name of this node in the API server; required",
	"programming-hook": "path of accelerator-fpga on the host, which programs the devices of claims that require an AFU; " +
		"requires --cdi-dir, and the hook's --store at the same path here; if empty, programming is off",
	"socket": "local socket for accelerator-device-plugin's commands, which only root can use; if empty, there is none",
}

// addSettings adds the flags for all settings to fs. Flags that don't have any effect are hidden from the help.
func addSettings(fs *pflag.FlagSet, loader *config.Loader, s *settings) {
	loader.AddFlags(fs)
	for _, name := range withoutEffect {
		fs.Lookup(name).Hidden = true
	}
	for name, usage := range usages {
		fs.Lookup(name).Usage = usage
	}
	fs.StringVar(&s.pluginDir, "plugin-dir", "/var/lib/kubelet/plugins/"+draname.Driver,
		"`path` of the driver's directory, which contains the kubelet's socket and the prepared claims; must be the same on the host")
	fs.StringVar(&s.registryDir, "registry-dir", "/var/lib/kubelet/plugins_registry",
		"`path` of the directory where the kubelet looks for drivers; must be the same on the host")
	fs.StringVar(&s.podUID, "pod-uid", "", "`uid` of the driver's pod, so that two pods can run during an upgrade; if empty, only one can run")
	fs.StringVar(&s.taintEffect, "taint-effect", string(resourceapi.DeviceTaintEffectNoExecute),
		"`effect` of the taint on a device that failed or was removed: NoExecute (its pods are evicted) or NoSchedule (they keep running)")
	fs.BoolVar(&s.deviceMetadata, "device-metadata", true, "give each container a file with its devices' attributes")
	fs.BoolVar(&s.claimStatus, "claim-status", false, "show each prepared claim's devices, and their health, in the claim's status")
	fs.BoolVar(&s.publishBitstreams, "publish-bitstreams", false, "publish the bitstreams in the node's store as devices, so that a claim can require one; "+
		"requires --programming-hook and Kubernetes 1.36")
	fs.BoolVar(&s.finishClaims, "finish-claims", false, "only unprepare the claims of pods that end, on a node that has changed to the device plugin; "+
		"nothing is published or prepared, no Events and no condition are written, and --socket and --state-dir are ignored")
}

// load returns the configuration and fills in s. fs must already have parsed the command line.
func (s *settings) load(fs *pflag.FlagSet, loader *config.Loader) (config.Config, error) {
	if err := loader.Load(os.LookupEnv); err != nil {
		return config.Config{}, err
	}
	for name, value := range map[string]*string{
		"plugin-dir": &s.pluginDir, "registry-dir": &s.registryDir, "pod-uid": &s.podUID, "taint-effect": &s.taintEffect,
	} {
		if text, ok := os.LookupEnv(variable(name)); ok && !fs.Changed(name) {
			*value = text
		}
	}
	for name, value := range map[string]*bool{"finish-claims": &s.finishClaims, "device-metadata": &s.deviceMetadata, "claim-status": &s.claimStatus, "publish-bitstreams": &s.publishBitstreams} {
		if text, ok := os.LookupEnv(variable(name)); ok && !fs.Changed(name) {
			found, err := strconv.ParseBool(text)
			if err != nil {
				return config.Config{}, fmt.Errorf("%s: found %q, want true or false", name, text)
			}
			*value = found
		}
	}
	cfg := loader.Config
	cfg.NodeAnnotation = false
	if s.finishClaims {
		// Clear the settings that belong to the device plugin on the same node.
		cfg.Socket, cfg.StateDir, cfg.Events, cfg.NodeConditionType = "", "", false, ""
		s.claimStatus, s.publishBitstreams = false, false // no claims are being prepared any more
	}
	if cfg.CDIDir == "" {
		cfg.CDIDir = "/var/run/cdi" // containers get their nodes only through CDI
	}
	if s.publishBitstreams && cfg.ProgrammingHook == "" {
		return cfg, errors.New("publish-bitstreams: found true without programming-hook, want both: without the hook no bitstream is loaded")
	}
	return cfg, errors.Join(s.check(), check(cfg))
}

// variable returns the name of the environment variable for a setting.
func variable(name string) string {
	return "ACCELERATOR_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// check returns an error for each invalid value.
func (s *settings) check() error {
	var errs []error
	for name, path := range map[string]string{"plugin-dir": s.pluginDir, "registry-dir": s.registryDir} {
		if !filepath.IsAbs(path) {
			errs = append(errs, fmt.Errorf("%s: found %q, want an absolute path", name, path))
		}
	}
	if uid := s.podUID; len(uid) > 63 || strings.ContainsAny(uid, "/\x00") {
		errs = append(errs, fmt.Errorf("pod-uid: found %.100q, want the uid of a pod", uid))
	}
	switch resourceapi.DeviceTaintEffect(s.taintEffect) {
	case resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNoSchedule:
	default:
		errs = append(errs, fmt.Errorf("taint-effect: found %q, want NoExecute or NoSchedule", s.taintEffect))
	}
	return errors.Join(errs...)
}

// effect returns the taint effect for devices that have failed or been removed.
func (s *settings) effect() resourceapi.DeviceTaintEffect {
	return resourceapi.DeviceTaintEffect(s.taintEffect)
}

// programmingOf returns how devices are programmed for claims, or nil if programming is off.
func programmingOf(cfg config.Config) *claims.Programming {
	if cfg.ProgrammingHook == "" {
		return nil
	}
	flags := pflag.NewFlagSet("hook", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true // ignore the hook's other flags
	store := flags.String("store", string(programming.DefaultStore), "")
	_ = flags.Parse(cfg.ProgrammingHookArgs) // the hook reports invalid arguments
	return &claims.Programming{
		Hook:  cdi.Hook{Path: cfg.ProgrammingHook, Args: cfg.ProgrammingHookArgs},
		Store: programming.Store(*store), Ports: cfg.Mode == offer.Single || cfg.Mode == offer.AF,
	}
}

func check(cfg config.Config) error {
	switch {
	case cfg.NodeName == "":
		return errors.New("node-name: found none, want the name of this node in the API server")
	case cfg.Mode == offer.Pool:
		return fmt.Errorf("mode: found %s, want single, af, region or regiondevel: a claim cannot select units without hardware", offer.Pool)
	case cfg.Mode == offer.RegionDevel && cfg.ProgrammingHook != "":
		// Reject the hook in this mode, because it would trust the AFU ID that a card reports.
		return fmt.Errorf("programming-hook: found %q with mode %s, want another mode, or no hook: in this mode a pod can load a bitstream "+
			"that reports the id of any AFU, and the hook would take it for the one of the store", cfg.ProgrammingHook, cfg.Mode)
	}
	return nil
}
