package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// creations records how many pods were created during an action, and what became of them.
type creations struct {
	all, kept int           // number of pods, and how many of them weren't dry runs
	slowest   time.Duration // longest time to create a pod
	refused   []error       // in no particular order
	outage    time.Duration // from the first refusal to the last
	unmutated int           // pods admitted with the requested name unchanged
}

func (c creations) String() string {
	text := fmt.Sprintf("%d pods (%d without dry run), slowest %v, unmutated %d, refused %d", c.all, c.kept, c.slowest.Round(time.Millisecond), c.unmutated, len(c.refused))
	if len(c.refused) > 0 {
		text += fmt.Sprintf(" in %v, such as: %v", c.outage.Round(time.Millisecond), c.refused[0])
	}
	return text
}

// whileCreating calls do and, while it runs, creates 20 pods per second that request a name. Nine out of ten are dry
// runs.
func (s *scene) whileCreating(name string, do func()) creations {
	var c creations
	var lock sync.Mutex
	var first, last time.Time
	create := func(n int) {
		kept := n%10 == 0
		pod, options := s.pod(fmt.Sprintf("load-%d", n), domain+name, 1), metav1.CreateOptions{}
		if !kept {
			options.DryRun = []string{metav1.DryRunAll}
		}
		began := time.Now()
		made, err := s.Client.CoreV1().Pods(s.users).Create(s.ctx, pod, options)
		took := time.Since(began)
		mutated := err == nil && len(made.Spec.Containers[0].Env) == 2 && requestedUnits(made.Spec.Containers[0])[domain+name] == 0
		if kept && err == nil {
			now := int64(0)
			err = s.Client.CoreV1().Pods(s.users).Delete(s.ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		}
		lock.Lock()
		defer lock.Unlock()
		c.all++
		c.slowest = max(c.slowest, took)
		if kept {
			c.kept++
		}
		switch {
		case err != nil:
			c.refused = append(c.refused, err)
			if first.IsZero() || began.Before(first) {
				first = began
			}
			if began.After(last) {
				last = began
			}
			c.outage = last.Sub(first)
		case !mutated:
			c.unmutated++
		}
	}
	s.during(do, func(ctx context.Context) {
		var tasks sync.WaitGroup
		defer tasks.Wait()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			tasks.Go(func() { create(n) })
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	s.step("  %v", c)
	return c
}

// noneRefused ends the story if any pod was refused or was admitted unchanged.
func (s *scene) noneRefused(c creations) {
	if len(c.refused) > 0 {
		s.failf("found %v, want none refused", c)
	}
	same(s, "admitted unmutated", c.unmutated, 0)
}

// mappingRotation creates pods while the CA is replaced, and while the operator is killed, upgraded and restarted. Pods
// are refused only after a replica has been killed.
func mappingRotation(s *scene) {
	s.step("helm install of the operator")
	s.installOperator()
	s.apply(mapping{"nlb0", "region", afuID, interfaceID})
	s.mappingsReady("af", "nlb0")
	old := must(s.authority())
	s.step("the Secret of the CA is deleted: the API server trusts both CAs, each replica gets a new certificate")
	s.noneRefused(s.whileCreating("nlb0", func() {
		s.check(s.Client.CoreV1().Secrets(operatorNamespace).Delete(s.ctx, operatorSecret, metav1.DeleteOptions{}))
		await(s, "trusted CAs", func() ([]bool, error) {
			all, err := s.trusted()
			if err != nil {
				return nil, err
			}
			ca, err := s.authority()
			if err != nil {
				return nil, err
			}
			var current []bool
			for _, c := range all {
				current = append(current, c.Equal(ca))
				if !c.Equal(ca) && !c.Equal(old) {
					return nil, errors.New("caBundle: found another CA, want only the old one and the new one")
				}
			}
			return current, nil
		}, []bool{true, false})
		ca := s.mustAuthority()
		await(s, "replicas with a certificate of the new CA", func() (int, error) { return s.countSigned(ca) }, 2)
	}))
	s.step("a replica is killed: some pods are refused until its endpoint is removed")
	c := s.whileCreating("nlb0", func() {
		pods := must(s.operators())
		pod := pods[0].Name
		s.check(syscall.Kill(s.pid(pods[0].Status.ContainerStatuses[0].ContainerID), syscall.SIGKILL))
		await(s, "started again, and ready", func() (bool, error) {
			pod, err := s.Client.CoreV1().Pods(operatorNamespace).Get(s.ctx, pod, metav1.GetOptions{})
			return err == nil && pod.Status.ContainerStatuses[0].RestartCount == 1 && ready(*pod), err
		}, true)
	})
	same(s, "admitted unmutated", c.unmutated, 0)
	if c.outage > soon {
		s.failf("pods were refused for %v, want at most %v", c.outage, soon)
	}
	s.step("helm upgrade to the next version: the CAs stay in the webhook at each moment")
	before := must(s.webhook())
	s.noneRefused(s.whileCreating("nlb0", func() {
		checks := s.alwaysTrusted(func() {
			must(s.helmOperator("upgrade", "--reset-then-reuse-values", "--set", "image.tag="+nextVersion))
		})
		s.step("  %d checks", checks)
	}))
	after := must(s.webhook())
	same(s, "CAs", string(after.ClientConfig.CABundle), string(before.ClientConfig.CABundle))
	s.step("kubectl rollout restart")
	s.noneRefused(s.whileCreating("nlb0", func() {
		for _, args := range [][]string{{"rollout", "restart"}, {"rollout", "status", "--timeout", "1m"}} {
			s.must("kubectl", append(args, "--namespace", operatorNamespace, "deployment", operator)...)
		}
	}))
}

// mustAuthority is like authority, but ends the story if it fails.
func (s *scene) mustAuthority() *x509.Certificate {
	ca := must(s.authority())
	return ca
}

// alwaysTrusted calls do and, while it runs, repeatedly checks that the webhook has a CA. It returns the number of
// checks.
func (s *scene) alwaysTrusted(do func()) int {
	checks, without := 0, 0
	var failed error
	s.during(do, func(ctx context.Context) {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil && failed == nil {
			all, err := s.trusted()
			failed = err
			checks++
			if len(all) == 0 {
				without++
			}
			<-tick.C
		}
	})
	s.check(failed)
	same(s, "checks without a CA in the webhook", without, 0)
	return checks
}
