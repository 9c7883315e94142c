package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	stdslices "slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"b-com.com/accelerator-device-plugin/dra/claims"
	"b-com.com/accelerator-device-plugin/dra/driver"
	"b-com.com/accelerator-device-plugin/dra/slices"
	"b-com.com/accelerator-device-plugin/internal/apiserver"
	"b-com.com/accelerator-device-plugin/internal/config"
	"b-com.com/accelerator-device-plugin/internal/control"
	"b-com.com/accelerator-device-plugin/internal/cordon"
	"b-com.com/accelerator-device-plugin/internal/daemon"
	"b-com.com/accelerator-device-plugin/internal/draname"
	"b-com.com/accelerator-device-plugin/internal/event"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/server"
	"b-com.com/accelerator-device-plugin/server/cdi"
	"b-com.com/accelerator-device-plugin/server/checkpoint"
	"b-com.com/accelerator-device-plugin/server/offer"
	"b-com.com/accelerator-device-plugin/server/podresources"
)

// claimKind is the kind of the CDI devices of claims.
const claimKind = draname.Driver + "/claim"

// bootFile has an id that the kernel generates at each boot. All containers read the same id.
const bootFile = "/proc/sys/kernel/random/boot_id"

func serve(cmd *cobra.Command, loader *config.Loader, s *settings) error {
	cfg, err := s.load(cmd.Flags(), loader)
	if err != nil {
		return err
	}
	counts := metrics.New(buildVersion())
	log := daemon.OpenLog(cfg, cmd.ErrOrStderr(), counts)
	defer log.Close()
	server.UseLogger(log.Logger)
	apiserver.UseLogger(log.Logger)
	for _, flag := range append(withoutEffect, "resources") {
		off := flag == "node-annotation" && !loader.Config.NodeAnnotation || // as the chart sets it
			flag == "resources" && stdslices.Contains(cfg.Families, "vfio") // whose devices need a rule
		if (loader.IsSet(flag) || flag == "resources" && len(cfg.Resources) > 0) && !off {
			log.Warn("setting has no effect with DRA", event.ConfigNotice, event.Flag(flag))
		}
	}
	d := newDaemon(cfg, *s, nil, log.Logger, counts)
	d.Loader = loader
	if err := d.Live(cmd.Context(), log); err != nil {
		return failure{err}
	}
	return nil
}

// newDaemon returns a daemon that offers its devices through DRA. client is nil outside tests.
func newDaemon(cfg config.Config, s settings, client kubernetes.Interface, log *zap.Logger, counts *metrics.Metrics) *daemon.Daemon {
	return &daemon.Daemon{
		Program: program, Kind: control.DRA, Version: buildVersion(), Config: cfg, Log: log, Metrics: counts,
		Guest: s.finishClaims,
		Open:  func() (daemon.API, error) { return open(cfg, s, client, log, counts) },
	}
}

// api implements [daemon.API] for DRA. It has the prepared claims, and the driver, which publishes slices
// and serves the kubelet.
type api struct {
	cfg            config.Config
	settings       settings
	metrics        *metrics.Metrics
	log            *zap.Logger
	client         kubernetes.Interface
	spec           *cdi.Spec
	claims         *claims.Claims
	owned          *offer.Ownership     // the resources of the device plugin
	memory         *podresources.Memory // of the holders of these
	inventory      *inventory.Inventory // set by Start
	*driver.Driver                      // set by Start
}

func open(cfg config.Config, s settings, client kubernetes.Interface, log *zap.Logger, counts *metrics.Metrics) (*api, error) {
	if client == nil {
		dialed, err := dial(cfg.Kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig: %w", err)
		}
		client = dialed
	}
	boot, err := os.ReadFile(bootFile)
	if err != nil {
		return nil, err
	}
	spec, err := cdi.Open(cfg.CDIDir, claimKind, cfg.HostDevRoot)
	if err != nil {
		return nil, fmt.Errorf("--cdi-dir: %w", err)
	}
	a := &api{cfg: cfg, settings: s, log: log, metrics: counts, client: client, spec: spec, owned: offer.NewOwnership(daemon.PolicyOf(cfg))}
	host, _ := os.Hostname()
	a.memory = &podresources.Memory{Keep: isPlugins, Pod: host}
	a.claims, err = claims.Open(claims.Config{
		Dir: s.pluginDir, Boot: strings.TrimSpace(string(boot)), Node: cfg.NodeName, Spec: spec, HostSysRoot: cfg.HostSysfsRoot, Devices: a, Taints: slices.Options{Effect: s.effect()}.Taints,
		Elsewhere: a.elsewhere, Client: client, Named: a.named, Programming: programmingOf(cfg), Log: log, Metrics: counts,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--plugin-dir: %w", err), spec.Close())
	}
	counts.AddDriver(draname.Driver, a.claims.Count)
	return a, nil
}

// dial returns a client of the API server, with the credentials of the pod or of a kubeconfig file.
func dial(kubeconfig string) (kubernetes.Interface, error) {
	cfg, err := rest.InClusterConfig()
	if kubeconfig != "" {
		cfg, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, err
	}
	cfg.UserAgent = program + "/" + buildVersion()
	cfg.AcceptContentTypes, cfg.ContentType = "application/vnd.kubernetes.protobuf,application/json", "application/vnd.kubernetes.protobuf"
	cfg.QPS, cfg.Burst = 20, 40 // the publisher limits the writes, and a taint must not wait for earlier writes
	return kubernetes.NewForConfig(cfg)
}

func (a *api) Configure(cfg *inventory.Config) {
	cfg.Holders, cfg.Certain, cfg.Given, cfg.OtherAPI = a.holders, true, a.claims.Added(), true
	cfg.Record, _ = a.claims.Holdings(context.Background()) // the inventory gets the error again with its first answer
}

func (a *api) Start(_ context.Context, inv *inventory.Inventory) {
	a.inventory = inv
	a.Driver = driver.New(driver.Config{
		Node: a.cfg.NodeName, PodUID: a.settings.podUID, PluginDir: a.settings.pluginDir, RegistryDir: a.settings.registryDir,
		SysfsRoot: a.cfg.SysfsRoot, Effect: a.settings.effect(), Finish: a.settings.finishClaims,
		Client: a.client, Inventory: inv, Claims: a.claims, Log: a.log, Metrics: a.metrics,
	})
}

func (a *api) Run(ctx context.Context) error {
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error { return a.claims.Run(ctx) })
	tasks.Go(func() error { return a.Driver.Run(ctx) })
	return tasks.Wait()
}

// Withdraw deletes the slices of the node.
func (a *api) Withdraw(ctx context.Context) error {
	return driver.Withdraw(ctx, a.client, a.cfg.NodeName, a.Driver == nil || a.Settled())
}

// Close closes the CDI spec. The last driver on the node removes the file.
func (a *api) Close() error { return a.spec.Close() }

// Policy returns the policy of the settings, under which each device in a PCI slot is published. A device that is
// offered only by a rule also needs the rule here: a network card on vfio-pci is not for claims of accelerators.
func (a *api) Policy(cfg config.Config, cordons []cordon.Cordon) inventory.Policy {
	a.owned.Add(cfg.Resources)
	p := daemon.DevicePolicy(cfg, cordons)
	rules := daemon.PolicyOf(cfg)
	p.Name = func(d *inventory.Device) (string, error) {
		if draname.Device(d.ID) == "" || d.OnlyByRule && rules.RuleOf(d) < 0 {
			return "", nil
		}
		return draname.Driver, nil
	}
	return p
}

// namesWithin is the longest time to wait for the kubelet's answer.
const namesWithin = 1500 * time.Millisecond

// holders returns the devices of the prepared claims, with the names of the containers that the kubelet
// reports, and the devices that containers got from the device plugin. Without the kubelet the answer is partial:
// the devices of claims are known without it.
func (a *api) holders(ctx context.Context) (map[string][]inventory.Holding, error) {
	all, err := a.claims.Holdings(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, namesWithin)
	defer cancel()
	named, err := a.ask(ctx)
	if err != nil {
		return all, inventory.Partial{Err: err}
	}
	for id, holdings := range all {
		for _, holder := range named[podresources.Key{Resource: draname.Driver, ID: draname.Device(id)}] {
			for i := range holdings {
				holdings[i].Holders = append(holdings[i].Holders, holder.String())
			}
		}
	}
	for id, holdings := range a.byPlugin(named) {
		all[id] = append(all[id], holdings...)
	}
	return all, nil
}

// ask asks the kubelet for the holders of devices.
func (a *api) ask(ctx context.Context) (map[podresources.Key][]podresources.Holder, error) {
	justStarted := podresources.JustStarted(a.cfg.PodResourcesSocket)
	answer, err := podresources.List(ctx, a.cfg.PodResourcesSocket)
	if err != nil {
		return nil, err
	}
	return a.memory.Complete(answer, justStarted), nil
}

// isPlugins reports whether a device was given out by a device plugin. The name of its resource does not matter: the
// settings may have had other names and rules then. The units of mode pool are left out, because they are no cards.
func isPlugins(key podresources.Key) bool {
	return key.Resource != draname.Driver && inventory.IsAddress(key.ID)
}

// byPlugin returns the devices that were given out by the device plugin, by id, sorted by their resources. The nodes
// that the containers got are read from the kubelet's checkpoint. Without it they are not known.
func (a *api) byPlugin(named map[podresources.Key][]podresources.Holder) map[string][]inventory.Holding {
	var keys []podresources.Key
	for key := range named {
		if isPlugins(key) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	stdslices.SortFunc(keys, func(x, y podresources.Key) int { return strings.Compare(x.Resource, y.Resource) })
	record, err := checkpoint.Read(a.cfg.KubeletDir)
	all := map[string][]inventory.Holding{}
	for _, key := range keys {
		h := inventory.Holding{As: key.Resource, OtherAPI: true}
		if h.Nodes, h.NodesErr = record.Nodes(key); err != nil {
			h.NodesErr = err
		}
		if !a.owned.Owns(key.Resource, key.ID) {
			h.NodesErr = nil // a device of another plugin must not withhold all free devices
		}
		for _, holder := range named[key] {
			h.Holders = append(h.Holders, holder.String())
		}
		all[key.ID] = append(all[key.ID], h)
	}
	return all
}

// elsewhere implements [claims.Config.Elsewhere]. While the kubelet does not answer, it uses the newest answer that the
// inventory has.
func (a *api) elsewhere(ctx context.Context) map[string][]inventory.Holding {
	ctx, cancel := context.WithTimeout(ctx, namesWithin)
	defer cancel()
	named, err := a.ask(ctx)
	if err == nil {
		return a.byPlugin(named)
	}
	all := map[string][]inventory.Holding{}
	for id, holdings := range a.inventory.Holdings() {
		if held := stdslices.DeleteFunc(stdslices.Clone(holdings), func(h inventory.Holding) bool { return !h.OtherAPI }); len(held) > 0 {
			all[id] = held
		}
	}
	return all
}

// Holders returns the holders in the inventory's newest answer, and the devices of the prepared claims.
func (a *api) Holders(ctx context.Context) (daemon.Holders, error) {
	given, err := a.claims.Holdings(ctx)
	if err != nil {
		return daemon.Holders{}, err
	}
	newest := a.inventory.Holdings()
	return daemon.Holders{
		Of: func(_, id string) (all []string) {
			for _, h := range newest[id] {
				all = append(all, h.Holders...)
			}
			return all
		},
		Given: func(id string) bool { return len(given[id]) > 0 },
	}, nil
}

// Resources returns the driver as the only resource. Its streams are the health streams.
func (a *api) Resources() []metrics.Resource {
	return []metrics.Resource{{Name: draname.Driver, Streams: a.Streams(), Ready: a.Driver.Ready() == nil}}
}

// Latest implements [claims.Devices].
func (a *api) Latest() (inventory.Snapshot, <-chan struct{}) { return a.inventory.Latest() }

// Ready returns nil if the kubelet has registered the driver, the slices are published, and the CDI spec
// has the devices of the prepared claims.
func (a *api) Ready() error { return errors.Join(a.Driver.Ready(), a.claims.Ready()) }

// Alive returns nil, because the driver has no goroutine that could hang unnoticed.
func (a *api) Alive() error { return nil }

// Reregister publishes the slices again. The kubelet registers drivers by itself.
func (a *api) Reregister() { a.Again() }
