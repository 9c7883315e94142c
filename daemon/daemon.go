package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"b-com.com/accelerator-device-plugin/daemon/apiserver"
	"b-com.com/accelerator-device-plugin/daemon/config"
	"b-com.com/accelerator-device-plugin/daemon/cordon"
	"b-com.com/accelerator-device-plugin/daemon/owner"
	"b-com.com/accelerator-device-plugin/internal/backlog"
	"b-com.com/accelerator-device-plugin/internal/metrics"
	"b-com.com/accelerator-device-plugin/inventory"
)

// API is the Kubernetes API through which a daemon advertises its devices: the device plugin API or DRA. The daemon
// calls Configure, Start, Run, Withdraw and Close at most once each, in this order. The other methods must be safe for
// concurrent use, and are only called after Start unless noted otherwise.
type API interface {
	// Configure sets the fields of cfg that concern holders: Holders, Record and Given. It also sets HoldersUnknown if
	// Record may be incomplete. The daemon has already set HoldersUnknown if containers may hold devices through the
	// other API.
	Configure(ctx context.Context, cfg *inventory.Config) error
	// Start gives the API the inventory, which isn't running yet. ctx is canceled when the daemon exits.
	Start(ctx context.Context, inv *inventory.Inventory)
	// Run advertises the devices until ctx is done. If it returns an error, the daemon exits.
	Run(ctx context.Context) error
	// Withdraw removes from Kubernetes any devices that would otherwise remain there after the daemon exits, and
	// returns nil if none remain. It is called after Run returns, and also if Start was never called. It isn't called
	// if the daemon has failed or if another daemon for this API is running on the node.
	Withdraw(ctx context.Context) error
	// Close releases whatever the API has opened. It is called after all tasks have ended.
	Close() error

	// Policy returns the inventory's policy for these settings and cordons, including the devices' names. It is also
	// called before Start.
	Policy(cfg config.Config, cordons []cordon.Cordon) inventory.Policy
	// Reregister makes the daemon register with the kubelet again.
	Reregister()
	// Holders returns who uses which device. It may block until ctx is done.
	Holders(ctx context.Context) inventory.Holdings
	// Resources returns the resources under which devices are advertised.
	Resources() []metrics.Resource
	// Alive returns an error if a main goroutine is hanging.
	Alive() error
	// Ready returns nil once Kubernetes has the devices.
	Ready() error
}

// Daemon follows a node's devices and advertises them through an API. Its fields don't change while it is running.
type Daemon struct {
	Program string        // the program's name, for the API server
	Version string        // the program's version
	Kind    string        // the API: control.DevicePlugin or control.DRA
	Config  config.Config // as read at startup
	Log     *zap.Logger
	Metrics *metrics.Metrics
	Open    func() (API, error) // opens the API at startup
	Guest   bool                // doesn't advertise devices, so it may run without the node lock, alongside the owner

	Loader  *config.Loader   // the loader that loaded Config; nil if there are no files
	Hangups <-chan os.Signal // SIGHUP; nil if Serve shouldn't handle it
	toggles <-chan os.Signal // SIGUSR1; nil if Serve shouldn't handle it
	toggle  func()           // toggles the debug level; not used if toggles is nil
}

// Serve opens the daemon's parts and starts their tasks. It then keeps the inventory's policy up to date until ctx is
// done or a task fails.
func (d *Daemon) Serve(ctx context.Context) (failed error) {
	defer backlog.FlushOnPanic(d.Log)
	if err := checkStateDir(ctx, d.Config.StateDir, d.Kind); err != nil {
		return err
	}
	api, err := d.Open()
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, api.Close()) }()
	client, err := d.apiServer()
	if err != nil {
		return err
	}
	tasks, ctx := errgroup.WithContext(ctx)
	r := &run{
		Daemon: d, tasks: tasks, api: api, client: client, owned: owner.New(d.Config.StateDir, d.Kind, d.Log), cfg: d.Config,
		changed: make(chan config.Files),
	}
	defer func() { // after all tasks have ended
		withdraw := api.Withdraw
		if failed != nil || ctx.Err() == nil { // after a panic, the tasks are still running and could advertise the devices again
			withdraw = nil
		}
		r.owned.Leave(ctx, withdraw)
	}()
	if err := r.serve(ctx); err != nil {
		tasks.Go(func() error { return err }) // ends the other tasks
	}
	return tasks.Wait()
}

// apiServer returns a client for the API server, or nil if none is needed.
func (d *Daemon) apiServer() (*apiserver.Client, error) {
	if d.Config.NodeName == "" || !d.Config.NodeAnnotation && !d.Config.Events && d.Config.NodeConditionType == "" {
		return nil, nil
	}
	client, err := apiserver.Open(apiserver.Config{
		Kubeconfig: d.Config.Kubeconfig, LookupEnv: os.LookupEnv, UserAgent: d.Program + "/" + d.Version,
		Failed: d.Metrics.APIFailed,
	}, d.Log)
	if err != nil {
		return nil, fmt.Errorf("--node-name %s: %w", d.Config.NodeName, err)
	}
	return client, nil
}
