package docker

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/toolhaven/toolhaven/internal/container"
)

const (
	// labelNetwork marks the networks that we made.
	labelNetwork = "dev.toolhaven.network"
	// labelOwnNetwork is on a container that has a network of its own: its name.
	labelOwnNetwork = "dev.toolhaven.own-network"
	// optionICC is the bridge driver's switch for traffic between containers.
	optionICC = "com.docker.network.bridge.enable_icc"
)

var networkName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}$`)

// networkMode matches a network's name, and an engine's modes such as container:NAME and
// slirp4netns:allow_host_loopback=true.
var networkMode = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}(:[a-zA-Z0-9_.,:=/-]{1,255})?$`)

// networks are the calls on an engine's networks.
type networks struct{ *connection }

// EnsureNetwork creates the bridge network unless it exists. Containers on it
// cannot reach each other.
//
// Docker ensures that by the bridge driver's enable_icc. Podman has no
// such switch, but keeps networks apart from each other; there, each container
// that [Engine.Create] puts on this network gets one of its own, which goes with
// it.
func (n networks) EnsureNetwork(ctx context.Context, name string) error {
	if !networkName.MatchString(name) {
		return fmt.Errorf("create network %q: not a network's name", name)
	}
	// Another process may create or remove it between two of our steps.
	for range 5 {
		twins, err := n.named(ctx, name)
		if err != nil {
			return err
		}
		if len(twins) > 0 {
			return n.settle(ctx, twins)
		}
		if err := n.create(ctx, name); err != nil && !networkExists(err) {
			return n.wrap(err, "create network %q", name)
		}
	}
	return fmt.Errorf("create network %q: something on this machine removes it as soon as it is there", name)
}

func (n networks) create(ctx context.Context, name string) error {
	options := map[string]string{}
	if !n.podman.Load() {
		options[optionICC] = "false"
	}
	_, err := n.api.NetworkCreate(ctx, name, client.NetworkCreateOptions{
		Driver: "bridge", Options: options, Labels: map[string]string{labelNetwork: "true"},
	})
	return err
}

// networkExists: Docker answers 409, Podman 4 a plain 500, whose text is all
// there is.
func networkExists(err error) bool {
	return errdefs.IsConflict(err) || errdefs.IsInternal(err) && strings.Contains(err.Error(), "network already exists")
}

// named returns the networks of exactly that name, oldest first.
func (n networks) named(ctx context.Context, name string) ([]network.Summary, error) {
	list, err := n.api.NetworkList(ctx, client.NetworkListOptions{Filters: client.Filters{}.Add("name", name)})
	if err != nil {
		return nil, n.wrap(err, "list networks")
	}
	var found []network.Summary
	for _, item := range list.Items { // the filter matches parts of names too
		if item.Name == name {
			found = append(found, item)
		}
	}
	slices.SortFunc(found, func(a, b network.Summary) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return found, nil
}

// settle leaves one of several networks of one name, and makes sure that it is
// what we need. Engines before API 1.44 accept two when two creations race, and
// can then attach no container by name. Every process that looks comes to the
// same choice, the oldest; one that a container already uses cannot be removed
// and stays in its place.
func (n networks) settle(ctx context.Context, twins []network.Summary) error {
	keep := twins[0]
	for _, other := range twins[1:] {
		err := n.remove(ctx, other.ID)
		if err != nil {
			keep, other = other, keep
			err = n.remove(ctx, other.ID)
		}
		if err != nil {
			return n.wrap(err, "remove the second network %q", keep.Name)
		}
	}
	if keep.Driver != "bridge" || !n.podman.Load() && keep.Options[optionICC] != "false" {
		return fmt.Errorf("use network %q: it lets containers reach each other, so it was not made by Toolhaven; remove it (`docker network rm %s`) and try again", keep.Name, keep.Name)
	}
	return nil
}

// usualGateway is the address of the default bridge of an engine that does not report it.
var usualGateway = netip.AddrFrom4([4]byte{172, 17, 0, 1})

// Gateway is the address by which containers on the engine's default bridge reach the
// machine that they run on.
func (n networks) Gateway(ctx context.Context) (netip.Addr, error) {
	name := "bridge"
	if n.podman.Load() {
		name = "podman"
	}
	found, err := n.api.NetworkInspect(ctx, name, client.NetworkInspectOptions{})
	if errdefs.IsNotFound(err) {
		return usualGateway, nil
	}
	if err != nil {
		return netip.Addr{}, n.wrap(err, "look for the gateway of network %q", name)
	}
	for _, subnet := range found.Network.IPAM.Config {
		switch {
		case subnet.Gateway.Is4():
			return subnet.Gateway, nil
		case subnet.Gateway.IsValid() || !subnet.Subnet.Addr().Is4():
		default:
			// Engines take the first address where none is configured.
			return subnet.Subnet.Masked().Addr().Next(), nil
		}
	}
	return usualGateway, nil
}

// remove removes a network. It returns no error for one that is gone.
func (n networks) remove(ctx context.Context, id string) error {
	_, err := n.api.NetworkRemove(ctx, id, client.NetworkRemoveOptions{})
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// own makes the network that the container called name has to itself,
// where the engine needs one for [Engine.EnsureNetwork];
// "" where it does not.
func (n networks) own(ctx context.Context, shared, name string) (string, error) {
	if !n.podman.Load() || shared == "none" || !container.OwnNetwork(shared) {
		return "", nil
	}
	found, err := n.api.NetworkInspect(ctx, shared, client.NetworkInspectOptions{})
	if errdefs.IsNotFound(err) {
		return "", nil // a mode of the engine; it decides
	}
	if err != nil {
		return "", n.wrap(err, "look for network %q", shared)
	}
	if found.Network.Labels[labelNetwork] == "" {
		return "", nil // a network that the person made
	}
	own := shared + "." + name
	if !networkName.MatchString(own) {
		return "", fmt.Errorf("create network %q for the container: not a network's name", own)
	}
	if err := n.create(ctx, own); err != nil && !networkExists(err) {
		return "", n.wrap(err, "create network %q", own)
	}
	return own, nil
}
