// Package subscribe combines the subscriptions of several clients at one server. A [Fanout]
// holds them and passes each change that the server reports to those whose [Filter] matches
// it. [Resources] counts the subscriptions to each resource, so that the server receives one
// request for the first of them and one for the last.
//
// How a subscription at the server is opened, replaced and renewed depends on its transport
// and era. It is not part of this package.
package subscribe
