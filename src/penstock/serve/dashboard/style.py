"""How pages look, in light and dark."""

from __future__ import annotations

from typing import Final

# ruff: noqa: E501
CSS: Final = """
:root { --ink:#17202c; --soft:#5d6878; --line:#e3e7ed; --page:#f5f7f9; --card:#ffffff; --brand:#0f766e; --bad:#c2410c; }
body.body--dark { --ink:#e6eaf0; --soft:#98a3b3; --line:#2a3340; --page:#0f141b; --card:#171e27; --brand:#2dd4bf;
  --bad:#fb923c; }
body { background:var(--page) !important; color:var(--ink); font-family:system-ui,-apple-system,"Segoe UI",Roboto,sans-serif; }
.ps-header { background:var(--card) !important; color:var(--ink) !important; border-bottom:1px solid var(--line);
  height:56px; padding:0 16px; display:flex; align-items:center; gap:12px; flex-wrap:nowrap; box-shadow:none !important; }
.ps-name { font-weight:700; font-size:18px; letter-spacing:-.01em; color:var(--brand); }
.ps-app { font-weight:600; font-size:16px; white-space:nowrap; overflow:hidden; text-overflow:ellipsis; min-width:40px; }
.ps-pill { font-size:13px; color:var(--soft); display:flex; align-items:center; gap:8px; white-space:nowrap;
  overflow:hidden; text-overflow:ellipsis; min-width:0; font-variant-numeric:tabular-nums; }
.ps-dot { width:9px; height:9px; border-radius:50%; background:#9aa4b2; flex:none; }
.ps-dot.bad { background:var(--bad); }
.ps-dot.live { background:#16a34a; box-shadow:0 0 0 4px #16a34a26; }
.ps-drawer { background:var(--card) !important; border-right:1px solid var(--line); padding:12px 8px !important; gap:2px; }
.ps-nav { width:100%; border-radius:8px; justify-content:flex-start; color:var(--soft) !important; font-weight:500;
  min-height:40px; text-transform:none; }
.ps-nav .q-btn__content { justify-content:flex-start; gap:12px; }
.ps-nav.here { background:color-mix(in srgb, var(--brand) 12%, transparent) !important; color:var(--brand) !important; }
.nicegui-content { padding:20px !important; max-width:1500px; margin:0 auto; width:100%; }
.ps-panel { width:100%; gap:16px; display:flex; flex-direction:column; align-items:stretch; flex-wrap:nowrap; min-width:0; }
.ps-card { background:var(--card); border:1px solid var(--line); border-radius:12px; padding:16px; width:100%; min-width:0;
  display:flex; flex-direction:column; gap:8px; flex-wrap:nowrap; align-items:stretch; }
.ps-title { font-weight:600; font-size:15px; }
.ps-note { font-size:13px; color:var(--soft); font-variant-numeric:tabular-nums; overflow-wrap:anywhere; }
.ps-tiles { display:grid; grid-template-columns:repeat(auto-fit, minmax(210px, 1fr)); gap:12px; width:100%; }
.ps-tile { background:var(--card); border:1px solid var(--line); border-radius:12px; padding:14px 16px; min-width:0; }
.ps-tile .k { font-size:12.5px; color:var(--soft); }
.ps-tile .v { font-size:23px; white-space:nowrap; overflow:hidden; text-overflow:ellipsis; font-weight:650; line-height:1.25; letter-spacing:-.02em; font-variant-numeric:tabular-nums; }
.ps-tile .d { font-size:12.5px; color:var(--soft); font-variant-numeric:tabular-nums; min-height:1.4em; }
.ps-two { display:grid; grid-template-columns:repeat(auto-fit, minmax(min(100%, 430px), 1fr)); gap:16px; width:100%; }
.ps-row { display:flex; flex-direction:row; gap:12px; align-items:center; flex-wrap:wrap; }
.ps-badge { font-size:12.5px; font-weight:600; padding:3px 10px; border-radius:99px; background:#64748b22; color:var(--soft); }
.ps-badge.early { background:#f59e0b26; color:#b45309; } .ps-badge.on-time { background:#16a34a26; color:#15803d; }
.ps-badge.late { background:#ea580c26; color:var(--bad); }
.body--dark .ps-badge.early { color:#fbbf24; } .body--dark .ps-badge.on-time { color:#4ade80; }
.ps-chart { height:340px; width:100%; } .ps-chart.low { height:250px; }
.ps-grid { height:430px; width:100%; } .ps-grid.low { height:225px; }
.ps-grid [class*="ag-theme-params"] { --ag-background-color:var(--card) !important; --ag-foreground-color:var(--ink) !important;
  --ag-header-background-color:color-mix(in srgb, var(--soft) 9%, var(--card)) !important; --ag-border-color:var(--line) !important;
  --ag-font-family:inherit !important; --ag-header-text-color:var(--soft) !important; --ag-accent-color:#0d9488 !important;
  --ag-text-color:var(--ink) !important; --ag-cell-text-color:var(--ink) !important; --ag-font-size:13.5px !important; }
.ps-swipe { display:none; }
.ps-error { color:var(--bad); font:13px/1.5 ui-monospace,SFMono-Regular,Menlo,monospace; white-space:pre-wrap; margin:0; }
.ps-code { font:13px/1.55 ui-monospace,SFMono-Regular,Menlo,monospace; white-space:pre-wrap; overflow-wrap:anywhere;
  background:color-mix(in srgb, var(--soft) 10%, transparent); border-radius:8px; padding:12px; margin:0; }
.ps-sql textarea { font:14px/1.5 ui-monospace,SFMono-Regular,Menlo,monospace !important; min-height:96px; }
.ps-past { font:12.5px/1.4 ui-monospace,monospace; text-transform:none; justify-content:flex-start; width:100%;
  text-align:left; color:var(--soft) !important; }
.ps-past .q-btn__content { justify-content:flex-start; display:block; overflow:hidden; text-overflow:ellipsis;
  white-space:nowrap; flex-wrap:nowrap; text-align:left; }
.q-dialog .ps-card { pointer-events:all; max-width:min(760px, 94vw); width:760px; }
@media (max-width:1250px) { .ps-header { padding:0 12px; } }
@media (max-width:700px) { .nicegui-content { padding:12px !important; } .ps-tiles { grid-template-columns:1fr 1fr; gap:8px; }
  .ps-tile { padding:10px 12px; } .ps-tile .v { font-size:20px; } .ps-card { padding:12px; } .ps-header { padding:0 8px; gap:8px; }
  .ps-chart { height:300px; } .ps-wide { display:none; } .ps-swipe { display:block; } }
"""

#: Colours that can be distinguished on light and on dark ground.
COLORS: Final = (
    "#0d9488",
    "#6366f1",
    "#f59e0b",
    "#ec4899",
    "#0ea5e9",
    "#84cc16",
    "#ef4444",
    "#a855f7",
    "#14b8a6",
    "#f97316",
)
#: What is late.
LATE: Final = "#ea580c"
SOFT: Final = "#8b95a5"
FAINT: Final = "rgba(139,149,165,0.18)"
