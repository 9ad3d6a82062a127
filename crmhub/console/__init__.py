"""The operators' web console at /console; it runs the same operations as the admin API.

How a page is added:

1. Write a view in the module of its subject, and register it on `blueprint`. Below the route it
   declares what it needs, with a decorator of `sessions.py`; a view without one is refused. A path
   with `<client_id>` or `<action_id>` is 404 for users who do not see the account. A view that
   reads several accounts passes `sessions.visible_accounts()` on, and one that shows values of
   people hides them from users without the right `data` (`operators.actions.personal_data`). A page
   whose view only renders a template is registered by `pages.add_page`. A view that changes data
   takes POST, calls `crmhub.operators.…` with `by=author()`, and returns
   `done("…", "console.endpoint")`, which redirects to a page that shows this message. Errors of
   `crmhub.errors` become error pages; with `@errors_on(template, context, typed)` the view's form
   is shown again with the typed values.
2. Write a template in `templates/console/` that extends `console/base.html` (for a page of an
   account: `console/account/frame.html`, with a tab in `accounts.TABS`), and fills the blocks
   `title` and `content`. The macros in `console/parts.html` make fields, copyable values, states
   and list paging. Each form that posts begins with `{{ csrf() }}`. Links and forms that the user
   may not use are left out: `{% if may("console.endpoint") %}`. Put no style or script into a page:
   the browser refuses inline ones. Styles that Bootstrap lacks are in `static/console.css`; colours
   are variables of `static/theme.css`, which has them for light and dark.
   Every text for people is wrapped, as a whole sentence: `_("…")` in a template, `gettext("…")` in
   a view. `make translations` adds it to the catalogues of Spanish and Portuguese: fill it in.
3. Import the module in `routes.py`. If the header links to the page, add it to `pages.HEAD`.
4. Add the page's URL to `tests/console/screenshots.py`, which takes a screenshot of every page.
   `tests/console/test_roles.py` opens it by itself, as users who must not see everything.

`sessions.py` lets only signed-in users reach a view, and requires the form's CSRF token for a POST.
A secret that is shown only once, such as an API key, is in the response to the POST and nowhere
else.
"""
