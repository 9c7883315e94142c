// Package ui serves the page of kubectl accelerator ui, which shows the cards of all nodes in a browser on the same
// machine.
//
//	board := ui.NewBoard("my-cluster")
//	go board.Follow(ctx, func(ctx context.Context, report func(fleet.Change)) error { return f.Follow(ctx, nil, report) })
//	ui.Serve(ctx, listener, board, token)
//
// # Who may read it
//
// Every program on the machine can connect to the address, and so can other sites' pages in the user's browser.
// Therefore each path begins with a random token, and [Handler] rejects requests with a different Host or a foreign
// Origin. No request changes anything. The page doesn't load anything from other hosts, and shows the nodes' answers
// only as text.
//
// # How it follows changes
//
// [Board] keeps each node's latest answer. The page receives changes as server-sent events, at most four times per
// second, and requests a node's details when it shows them. While no page is open, or all pages are in hidden tabs, the
// nodes aren't followed. A slow page may miss answers, but always gets the latest one.
package ui
