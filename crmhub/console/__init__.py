"""The operator's console, /console: pages over the same use-cases as the admin API.

How a page is added:

1. A view in the module named after what it is about, registered on `blueprint`. A view that shows
   takes GET; one that changes something takes POST, calls `crmhub.operations.…` with `by=author()`,
   and answers `done("…", "console.endpoint")`: a redirect, with a word on the next page. What
   `crmhub.errors` raises becomes an error page by itself; a form that is to be shown again, with
   what was typed, is answered by `refused(exc, template, …)`.
2. A template in `templates/console/` that extends `console/base.html` (of an account:
   `console/account/frame.html`, with a tab in `account.TABS`) and fills the blocks `title` and
   `content`. The macros of `console/parts.html` make fields, copyable values, states and pages
   of a list. Each form that posts begins with `{{ csrf() }}`. No style or script in a page: the
   browser refuses them; what Bootstrap lacks stands in `static/console.css`.
3. The module is imported by `routes.py`, and a page that belongs into the head is named in
   `pages.HEAD`.
4. Its address is named in `tests/console/screenshots.py`, which photographs every page.

Only who is signed in comes to a view, and a POST only with the form's token: `guarding.py` sees to
both. What is shown once (a key) stands in the answer to the POST itself, and nowhere else.
"""
