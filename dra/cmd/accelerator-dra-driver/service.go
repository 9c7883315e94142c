package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	stdslices "slices"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"b-com.com/accelerator-device-plugin/cdi"
	"b-com.com/accelerator-device-plugin/daemon"
	"b-com.com/accelerator-device-plugin/daemon/apiserver"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/control"
	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/dra/bitstreams"
	"b-com.com/accelerator-device-plugin/dra/claims"
	"b-com.com/accelerator-device-plugin/dra/claimstatus"
	"b-com.com/accelerator-device-plugin/dra/driver"
	"b-com.com/accelerator-device-plugin/dra/slices"
	"b-com.com/accelerator-device-plugin/internal/boot"
	"b-com.com/accelerator-device-plugin/internal/grpclog"
	"b-com.com/accelerator-device-plugin/internal/logevent"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
	"b-com.com/accelerator-device-plugin/kubelet/holders"
	"b-com.com/accelerator-device-plugin/offer"
	"b-com.com/accelerator-device-plugin/offer/draname"
)

// claimKind is the CDI kind for claims' devices.
const claimKind = draname.Driver + "/claim"

func serve(cmd *cobra.Command, loader *config.Loader, s *settings) error {
	cfg, err := s.load(cmd.Flags(), loader)
	if err != nil {
		return err
	}
	counts := metrics.New(buildVersion())
	log := daemon.OpenLog(cfg, cmd.ErrOrStderr(), counts)
	defer log.Close()
	grpclog.Use(log.Logger)
	apiserver.UseLogger(log.Logger)
	for _, flag := range append(withoutEffect, "resources") {
		off := flag == "node-annotation" && !loader.Config.NodeAnnotation || // false is what the chart sets
			flag == "resources" && stdslices.Contains(cfg.Families, "vfio") // vfio devices need a rule
		if (loader.IsSet(flag) || flag == "resources" && len(cfg.Resources) > 0) && !off {
			log.Warn("setting has no effect with DRA", logevent.ConfigNotice, logevent.Flag(flag))
		}
	}
	d := newDaemon(cfg, *s, nil, log.Logger, counts)
	d.Loader = loader
	if err := d.Live(cmd.Context(), log); err != nil {
		return failure{err}
	}
	return nil
}

// newDaemon returns a daemon that advertises its devices through DRA. client is nil except in tests.
func newDaemon(cfg config.Config, s settings, client kubernetes.Interface, log *zap.Logger, counts *metrics.Metrics) *daemon.Daemon {
	return &daemon.Daemon{
		Program: program, Kind: control.DRA, Version: buildVersion(), Config: cfg, Log: log, Metrics: counts,
		Guest: s.finishClaims,
		Open:  func() (daemon.API, error) { return open(cfg, s, client, log, counts) },
	}
}

// api implements [daemon.API] for DRA. It combines the prepared claims with the driver, which publishes slices and
// serves the kubelet.
type api struct {
	cfg            config.Config
	settings       settings
	metrics        *metrics.Metrics
	log            *zap.Logger
	client         kubernetes.Interface
	spec           *cdi.Spec
	claims         *claims.Claims
	published      slices.Options       // to compute devices' attributes and taints, as in the slices
	owned          *offer.Ownership     // the device plugin's resource names
	use            *holders.Source      // set by Configure
	injected       *holders.Injected    // set by Configure
	inventory      *inventory.Inventory // set by Start
	stored         *bitstreams.Follower // set by Start; nil if bitstreams aren't published
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
	id, err := boot.ID()
	if err != nil {
		return nil, err
	}
	spec, err := cdi.Open(cfg.CDIDir, claimKind, cfg.HostDevRoot)
	if err != nil {
		return nil, fmt.Errorf("--cdi-dir: %w", err)
	}
	a := &api{cfg: cfg, settings: s, log: log, metrics: counts, client: client, spec: spec, owned: offer.NewOwnership(daemon.OfferNaming(cfg))}
	a.published = slices.Options{Effect: s.effect(), PCI: slices.PCI(cfg.SysfsRoot)}
	claimed := claims.Config{
		Dir: s.pluginDir, Boot: id, Node: cfg.NodeName, Spec: spec, HostSysRoot: cfg.HostSysfsRoot, Devices: a, Taints: a.published.Taints,
		Elsewhere: a.elsewhere, Client: client, Named: a.named, Programming: programmingOf(cfg), Log: log, Metrics: counts,
	}
	claimed.Claimed = func(ctx context.Context, nodes map[string][]string) error { return a.injected.SetClaimed(ctx, nodes) }
	if s.deviceMetadata {
		claimed.Attributes = a.published.Attributes
	}
	a.claims, err = claims.Open(claimed)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--plugin-dir: %w", err), spec.Close())
	}
	counts.AddDriver(draname.Driver, a.claims.Count)
	return a, nil
}

// dial returns a client for the API server. It uses the kubeconfig file, or the pod's credentials if kubeconfig is "".
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
	cfg.QPS, cfg.Burst = 20, 40 // the publisher limits the rate of writes, and a taint shouldn't have to wait for earlier writes
	return kubernetes.NewForConfig(cfg)
}

func (a *api) Configure(ctx context.Context, cfg *inventory.Config) error {
	injected, err := holders.OpenInjected(a.cfg.StateDir) // recorded by an earlier device plugin
	if err != nil {
		return fmt.Errorf("--state-dir: %w", err)
	}
	a.injected = injected
	a.use = holders.New(holders.Config{
		Rules: holders.Rules{
			Owns: a.owned.Owns, DRA: true, InPod: os.Getenv("KUBERNETES_SERVICE_HOST") != "",
			Node: a.cfg.NodeName, DevRoot: a.cfg.HostDevRoot, Grace: a.cfg.TombstoneGrace,
		},
		Socket: a.cfg.PodResourcesSocket, KubeletDir: a.cfg.KubeletDir, CgroupRoot: a.cfg.CgroupRoot, StateDir: a.cfg.StateDir, Injected: injected, Claims: a.claims.Holdings,
	})
	cfg.Holders, cfg.Given = a.use.Ask, a.claims.Added()
	cfg.Record, err = a.use.Record(ctx)
	cfg.HoldersUnknown = cfg.HoldersUnknown || err != nil // the first answer will report the error
	return nil
}

func (a *api) Start(_ context.Context, inv *inventory.Inventory) {
	a.inventory = inv
	cfg := driver.Config{
		Node: a.cfg.NodeName, PodUID: a.settings.podUID, PluginDir: a.settings.pluginDir, RegistryDir: a.settings.registryDir,
		SysfsRoot: a.cfg.SysfsRoot, Effect: a.settings.effect(), Finish: a.settings.finishClaims,
		Client: a.client, Inventory: inv, Claims: a.claims, Log: a.log, Metrics: a.metrics,
	}
	if a.settings.publishBitstreams {
		a.stored = bitstreams.New(programmingOf(a.cfg).Store, a.log)
		cfg.Stored = a.stored.Latest
	}
	a.Driver = driver.New(cfg)
}

func (a *api) Run(ctx context.Context) error {
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error { a.use.Watch(ctx, a.log, a.claims.Ask); return nil })
	tasks.Go(func() error { return a.claims.Run(ctx) })
	tasks.Go(func() error { return a.Driver.Run(ctx) })
	if a.stored != nil {
		tasks.Go(func() error { return a.stored.Run(ctx) })
	}
	if a.settings.claimStatus {
		w := claimstatus.New(claimstatus.Config{
			Node: a.cfg.NodeName, Client: a.client, Claims: a.claims, Devices: a.inventory, Attributes: a.published.Attributes, Log: a.log,
		})
		tasks.Go(func() error { return w.Run(ctx) })
	}
	return tasks.Wait()
}

// Withdraw deletes the node's slices.
func (a *api) Withdraw(ctx context.Context) error {
	return driver.Withdraw(ctx, a.client, a.cfg.NodeName, a.Driver == nil || a.UpToDate())
}

// Close closes the CDI spec. The last driver on the node to do so removes the file.
func (a *api) Close() error { return a.spec.Close() }

// Policy returns the policy for the given settings, which is to publish every device in a PCI slot. A device that the
// device plugin advertises only if there is a rule for it needs the rule here too, so that claims for accelerators
// don't get a network card that is bound to vfio-pci.
func (a *api) Policy(cfg config.Config, cordons []cordon.Cordon) inventory.Policy {
	a.owned.Add(cfg.Resources)
	p := daemon.DevicePolicy(cfg, cordons)
	rules := daemon.OfferNaming(cfg)
	p.Name = func(d *inventory.Device) (string, error) {
		if draname.Device(d.ID) == "" || d.OnlyByRule && rules.RuleOf(d) < 0 {
			return "", nil
		}
		return draname.Driver, nil
	}
	return p
}

// elsewhereWithin is how long elsewhere waits for the kubelet.
const elsewhereWithin = 1500 * time.Millisecond

// elsewhere implements [claims.Config.Elsewhere].
func (a *api) elsewhere(ctx context.Context) map[string][]inventory.Holding {
	ctx, cancel := context.WithTimeout(ctx, elsewhereWithin)
	defer cancel()
	all := map[string][]inventory.Holding{}
	use := a.use.Recent(ctx)
	if use.Of == nil { // the kubelet didn't answer in time
		use = a.inventory.Holdings()
	}
	for id, holdings := range use.Of {
		for _, h := range holdings {
			if h.OtherAPI && !h.Foreign {
				all[id] = append(all[id], h)
			}
		}
	}
	return all
}

// named implements [claims.Config.Named]. It returns an error if the kubelet's answer may be incomplete, because only a
// complete one proves that a claim is no longer listed.
func (a *api) named(ctx context.Context) (map[string]bool, error) {
	use := a.use.Ask(ctx)
	if err := use.Problem(); err != nil {
		return nil, err
	}
	if use.Awaiting {
		return nil, errors.New("the kubelet does not know all its pods yet")
	}
	names := map[string]bool{}
	for id, holdings := range use.Of {
		for _, h := range holdings {
			if h.As == draname.Driver && len(h.Holders) > 0 {
				names[draname.Device(id)] = true
			}
		}
	}
	return names, nil
}

// Holders returns the containers that are currently using each device.
func (a *api) Holders(ctx context.Context) inventory.Holdings { return a.use.Recent(ctx) }

// Resources returns a single resource, the driver itself. Its streams are the health streams.
func (a *api) Resources() []metrics.Resource {
	return []metrics.Resource{{Name: draname.Driver, Streams: a.Streams(), Ready: a.Driver.Ready() == nil}}
}

// Latest implements [claims.Devices].
func (a *api) Latest() (inventory.Snapshot, <-chan struct{}) { return a.inventory.Latest() }

// Ready returns nil if the kubelet has registered the driver, the slices have been published, and the CDI spec is up to
// date with the prepared claims.
func (a *api) Ready() error { return errors.Join(a.Driver.Ready(), a.claims.Ready()) }

// Alive always returns nil, because the driver has no goroutine that could hang unnoticed.
func (a *api) Alive() error { return nil }

// Reregister republishes the slices. Nothing else is needed, because the kubelet registers drivers by itself.
func (a *api) Reregister() { a.Republish() }
