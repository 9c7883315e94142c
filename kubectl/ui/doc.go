// Package ui serves the page of kubectl accelerator ui: the cards of all nodes, in a browser on the same machine.
//
//	board := ui.NewBoard("my-cluster")
//	go fleet.Follow(ctx, nil, board.Report)
//	http.Serve(listener, ui.Handler(board, listener.Addr().String(), token))
//
// # Who may read it
//
// Every program on the machine can connect to the address, also a page of another site in the user's browser. So each path
// begins with a random token, and [Handler] refuses requests with another Host or with a foreign Origin. It only reads. The
// page loads nothing from elsewhere, and shows what nodes answer only as text.
//
// # How it follows changes
//
// [Board] keeps the newest answer of each node. The page gets the changes as server-sent events, at most four times a second,
// and asks for the details of a node when it shows them. A slow page skips answers, and always gets the newest one.
package ui
